"""Detection of falls in a stream of numbers of unknown scale, by a robust cumulative sum."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from mixfold.core.checks import check_above, check_array, check_kind, check_least, check_whole
from mixfold.core.detector import LARGEST_NUMBER, Detector, finite
from mixfold.core.value import value

LEAST_SPREAD = 1e-9  # smallest s relative to the level; below it, differences are rounding errors
WITHIN = 0.6827  # probability that a Gaussian variable is within one standard deviation


@value
class RobustCusumState:
    """The last numbers, and the cumulative sum of falls."""

    recent: list[float]
    total: float
    drift_detected: bool


@value
class RobustCusum(Detector[RobustCusumState]):
    """S <- max(0, S + min((m - x) / s, max_deviation) - delta); a fall where S > threshold.

    m is the median of the last `window_size` numbers, and s is the standard deviation of the
    differences between successive numbers, estimated by quantiles. So neither the scale of the
    numbers nor a slow rise matters, and outliers have little influence. Rises are not reported.

    Parameters
    ----------
    min_instances : int, default=20
        No fall is reported in this many numbers at the beginning and after each detection.
    delta : float, default=1.0
        Falls by fewer standard deviations than this are ignored.
    threshold : float, default=11.0
        In standard deviations. Larger values give fewer false alarms and later detections.
    max_deviation : float, default=5.0
        One number counts for at most this many standard deviations: with the defaults, two outliers
        are not reported as a fall.
    window_size : int, default=128
        The number of recent values from which the median and s are computed.

    Examples
    --------
    >>> detector = RobustCusum(min_instances=8)
    >>> for i, x in enumerate([0.1, -0.1, 0.2, 0.0] * 5 + [-3.0] * 4):
    ...     detector.update(x)
    ...     if detector.drift_detected:
    ...         print(f"fall detected at number {i}")
    fall detected at number 22

    References
    ----------
    Page (1954), Continuous inspection schemes, where m and s are known.
    """

    min_instances: int = 20
    delta: float = 1.0
    threshold: float = 11.0
    max_deviation: float = 5.0
    window_size: int = 128

    def __post_init__(self) -> None:
        check_whole("min_instances", self.min_instances, 2)
        check_above("delta", self.delta, 0.0)
        check_above("threshold", self.threshold, 0.0)
        check_above("max_deviation", self.max_deviation, self.delta)
        check_whole("window_size", self.window_size, self.min_instances)

    def init(self) -> RobustCusumState:
        return RobustCusumState([], 0.0, drift_detected=False)

    def check_state(self, state: RobustCusumState) -> None:
        check_kind("state of the detector", state, RobustCusumState)
        recent = np.array(state.recent)
        check_array("recent", recent, (len(recent),), -LARGEST_NUMBER, LARGEST_NUMBER)
        check_least("total", state.total, 0.0)

    def step(self, state: RobustCusumState, x: float) -> RobustCusumState:
        if state.drift_detected:
            state = self.init()
        x, total = finite(x), 0.0
        if len(state.recent) >= self.min_instances:
            fall = min(self._deviations_below(state.recent, x), self.max_deviation)
            total = max(0.0, state.total + fall - self.delta)
        if total > self.threshold:
            return RobustCusumState([], 0.0, drift_detected=True)
        return RobustCusumState([*state.recent, x][-self.window_size :], total, False)

    def _deviations_below(self, recent: list[float], x: float) -> float:
        """By how many standard deviations the number is below the median."""
        level = _quantile(recent, 0.5)
        steps = [after - before for before, after in pairwise(recent)]
        usual = _quantile(steps, 0.5)
        spread = _quantile([abs(step - usual) for step in steps], WITHIN)
        return (level - x) / max(spread, LEAST_SPREAD * max(1.0, abs(level)))


def _quantile(numbers: list[float], share: float) -> float:
    return sorted(numbers)[int(share * len(numbers))]
