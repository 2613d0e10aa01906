"""Detection of changes of unknown means, by cumulative sums with a stated rate of false alarms."""

from __future__ import annotations

from functools import lru_cache
from math import exp, sqrt
from typing import ClassVar

import numpy as np

from mixfold.core.checks import check_above, check_array, check_count, check_kind, check_whole
from mixfold.core.detector import LARGEST_NUMBER, Detector, Reading, finite
from mixfold.core.rows import Array
from mixfold.core.value import replace, value

LEAST_SPREAD = 1e-9  # smallest deviation relative to the mean; below it are rounding errors
OVERSHOOT = 1.166  # by which a sum of Gaussian numbers passes a threshold, both sides together
FEW = 2  # numbers of which a deviation is known
LARGEST_TOTAL = 1e9


@value
class SelfStartingCusumState:
    """Means and sums of squared deviations of `n` numbers, and cumulative sums of both directions.

    All arrays have one entry for each of the numbers that are given together. `since` are the last
    numbers in which the largest sum was above 0: the change has probably come with the first.
    """

    n: int
    mean: Array
    squares: Array
    above: Array
    below: Array
    runs: Array
    since: int
    drift_detected: bool


@value
class SelfStartingCusum(Detector[SelfStartingCusumState]):
    """U <- max(0, U + z - delta), D <- max(0, D - z - delta); a change where one is above h.

    z is how far a number is from the mean of those before, in their standard deviations, as a
    Gaussian quantile: so z is a standard Gaussian variable from the third number on, and need not
    be learned from a period without changes. h follows from the rate of false alarms. Several
    numbers may be given together, such as the means of several columns; h allows for their number.

    Parameters
    ----------
    false_alarm_rate : float, default=1e-6
        False alarms per number, of all the numbers given together. `DriftAware` gives one for every
        window: 1e-6 is one false alarm in a million windows, or in 128 million rows.
    delta : float, default=1.0
        Changes of the mean by fewer standard deviations than this are ignored.
    max_deviation : float, default=5.0
        One number counts for at most this many standard deviations.
    min_instances : int, default=10
        No change is reported in so many numbers at the beginning and after each detection.

    Examples
    --------
    >>> detector = SelfStartingCusum()
    >>> for i, x in enumerate([0.1, -0.1, 0.2, 0.0] * 5 + [3.0] * 4):
    ...     detector.update(x)
    ...     if detector.drift_detected:
    ...         print(f"change detected at number {i}")
    change detected at number 21

    References
    ----------
    Hawkins (1987), Self-starting CUSUM charts for location and scale, The Statistician 36, 299-316;
    Siegmund (1985), Sequential analysis, for the rate.
    """

    reads: ClassVar[Reading] = "features"

    false_alarm_rate: float = 1e-6
    delta: float = 1.0
    max_deviation: float = 5.0
    min_instances: int = 10

    def __post_init__(self) -> None:
        check_above("false_alarm_rate", self.false_alarm_rate, 0.0, 0.5)
        check_above("delta", self.delta, 0.0)
        check_above("max_deviation", self.max_deviation, self.delta)
        check_whole("min_instances", self.min_instances, FEW)

    def init(self) -> SelfStartingCusumState:
        none = np.empty(0)
        return SelfStartingCusumState(0, none, none, none, none, np.empty((2, 0)), 0, False)

    def check_state(self, state: SelfStartingCusumState) -> None:
        check_kind("state of the detector", state, SelfStartingCusumState)
        check_count("n", state.n)
        check_count("since", state.since)
        shape = (np.size(state.mean),)
        check_array("mean", state.mean, shape, -LARGEST_NUMBER, LARGEST_NUMBER)
        check_array("squares", state.squares, shape, 0.0)
        for name in ("above", "below"):
            check_array(name, getattr(state, name), shape, 0.0, LARGEST_TOTAL)
        check_array("runs", state.runs, (2, *shape), 0.0, LARGEST_TOTAL)

    def step(self, state: SelfStartingCusumState, x: float | Array) -> SelfStartingCusumState:
        """The state after one more number, or after several numbers given together."""
        if state.drift_detected:
            state = self.init()
        numbers = np.array([finite(one) for one in np.atleast_1d(x).tolist()])
        if not state.n:
            zero, none = np.zeros_like(numbers), np.zeros((2, len(numbers)))
            return SelfStartingCusumState(1, numbers, zero, zero, zero, none, 0, False)
        n, off = state.n, numbers - state.mean
        if n < self.min_instances:
            return self._with(state, off)
        least = LEAST_SPREAD * np.maximum(1.0, np.abs(state.mean))
        spread = np.maximum(np.sqrt(state.squares / (n - 1)), least)
        z = _quantiles(off / spread * sqrt(n / (n + 1)), n - 1)
        z = np.clip(z, -self.max_deviation, self.max_deviation)
        above = np.maximum(0.0, state.above + z - self.delta)
        below = np.maximum(0.0, state.below - z - self.delta)
        most = self.max_deviation * spread
        after = self._with(state, np.clip(off, -most, most))  # outliers do not hide what follows
        sums = np.stack([above, below])
        runs = np.where(sums > 0.0, state.runs + 1.0, 0.0)
        largest = float(sums.max(initial=0.0))
        since = int(runs.flat[sums.argmax()]) if len(numbers) else 0
        found = largest > self.threshold(len(numbers))
        return replace(
            after, above=above, below=below, runs=runs, since=since, drift_detected=found
        )

    def _with(self, state: SelfStartingCusumState, off: Array) -> SelfStartingCusumState:
        """The state with the mean and the squares of one number more."""
        n = state.n
        mean, squares = state.mean + off / (n + 1), state.squares + off * (off * (n / (n + 1)))
        return replace(state, n=n + 1, mean=mean, squares=squares)

    def threshold(self, numbers: int) -> float:
        """h for so many numbers that are given together, each with two cumulative sums."""
        return _threshold(self.false_alarm_rate / max(1, 2 * numbers), self.delta)


@lru_cache
def _threshold(rate: float, delta: float) -> float:
    """The threshold of one sum, which then passes it once in 1 / rate numbers.

    With b = h + 1.166 it does so once in (exp(2 delta b) - 2 delta b - 1) / (2 delta^2).
    """
    low, high = 0.0, 350.0 / delta
    for _ in range(200):
        b = 0.5 * (low + high)
        passed = exp(2.0 * delta * b) - 2.0 * delta * b - 1.0 > 2.0 * delta**2 / rate
        low, high = (low, b) if passed else (b, high)
    return max(0.0, high - OVERSHOOT)


def _quantiles(t: Array, freedom: int) -> Array:
    """Gaussian quantiles of t-distributed numbers, as approximated by Wallace (1959)."""
    scale = (8.0 * freedom + 1.0) / (8.0 * freedom + 3.0)
    return np.asarray(np.sign(t) * scale * np.sqrt(freedom * np.log1p(t * (t / freedom))))
