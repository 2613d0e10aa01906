"""The Page-Hinkley test, as in river."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from mixfold.core.checks import (
    check_above,
    check_array,
    check_count,
    check_kind,
    check_least,
    check_whole,
)
from mixfold.core.detector import LARGEST_NUMBER, Detector, finite
from mixfold.core.errors import InvalidInputError, unknown_name
from mixfold.core.value import value

Mode = Literal["up", "down", "both"]
LARGEST_TOTAL = 1e20 * LARGEST_NUMBER


@value
class PageHinkleyState:
    """The mean of `n` numbers and, for both directions, the sum of deviations and its extreme."""

    n: int
    mean: float
    sum_increase: float
    sum_decrease: float
    min_increase: float
    max_decrease: float
    drift_detected: bool


@value
class PageHinkley(Detector[PageHinkleyState]):
    """The Page-Hinkley test for a change of the mean.

    m_n = mean(x_1..x_n); U <- alpha U + (x - m_n) - delta, D <- alpha D + (x - m_n) + delta. The
    mean has risen where U - min U > threshold, and fallen where max D - D > threshold. Parameters,
    defaults and results are those of `river.drift.PageHinkley`.

    Parameters
    ----------
    min_instances : int, default=30
        No change is reported before this many numbers.
    delta : float, default=0.005
        Changes of the mean by less than this are ignored.
    threshold : float, default=50.0
        Larger values give fewer false alarms and later detections. In the unit of the numbers.
    alpha : float, default=0.9999
        The factor by which the sums are multiplied with every number.
    mode : {"up", "down", "both"}, default="both"
        Whether to report that the mean has risen, that it has fallen, or either.

    Examples
    --------
    >>> detector = PageHinkley(threshold=5.0)
    >>> for i, x in enumerate([0.1, -0.1, 0.2, 0.0] * 25 + [3.0] * 10):
    ...     detector.update(x)
    ...     if detector.drift_detected:
    ...         print(f"change detected at number {i}")
    change detected at number 101

    References
    ----------
    Page (1954), Continuous inspection schemes; Hinkley (1971), Inference about the change-point
    from cumulative sum tests.
    """

    min_instances: int = 30
    delta: float = 0.005
    threshold: float = 50.0
    alpha: float = 1 - 0.0001
    mode: Mode = "both"

    def __post_init__(self) -> None:
        check_whole("min_instances", self.min_instances)
        check_least("delta", self.delta, 0.0)
        check_above("threshold", self.threshold, 0.0)
        check_above("alpha", self.alpha, 0.0, 1.0)
        if self.mode not in get_args(Mode):
            raise unknown_name("mode", self.mode, get_args(Mode))

    def init(self) -> PageHinkleyState:
        return PageHinkleyState(0, 0.0, 0.0, 0.0, 0.0, 0.0, drift_detected=False)

    def check_state(self, state: PageHinkleyState) -> None:
        check_kind("state of the detector", state, PageHinkleyState)
        check_count("n", state.n)
        sums = (state.sum_increase, state.sum_decrease, state.min_increase, state.max_decrease)
        check_array("mean", np.array([state.mean]), (1,), -LARGEST_NUMBER, LARGEST_NUMBER)
        check_array("sums of deviations", np.array(sums), (4,), -LARGEST_TOTAL, LARGEST_TOTAL)
        if state.min_increase > state.sum_increase or state.max_decrease < state.sum_decrease:
            raise InvalidInputError("sums of deviations are beyond their extremes")

    def step(self, state: PageHinkleyState, x: float) -> PageHinkleyState:
        if state.drift_detected:
            state = self.init()
        x, n = finite(x), state.n + 1
        mean = state.mean + (x - state.mean) / n
        increase = self.alpha * state.sum_increase + x - mean - self.delta
        decrease = self.alpha * state.sum_decrease + x - mean + self.delta
        lowest, highest = min(state.min_increase, increase), max(state.max_decrease, decrease)
        after = PageHinkleyState(n, mean, increase, decrease, lowest, highest, False)
        return replace(after, drift_detected=self._has_changed(after))

    def _has_changed(self, state: PageHinkleyState) -> bool:
        if state.n < self.min_instances:
            return False
        risen = state.sum_increase - state.min_increase > self.threshold
        fallen = state.max_decrease - state.sum_decrease > self.threshold
        return (risen and self.mode != "down") or (fallen and self.mode != "up")
