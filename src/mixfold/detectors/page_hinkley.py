"""Falls in a stream of numbers, by a cumulative sum."""

from __future__ import annotations

from itertools import pairwise
from math import isnan

import numpy as np

from mixfold.core.checks import check_above, check_array, check_kind, check_least, check_whole
from mixfold.core.detector import Detector
from mixfold.core.errors import InvalidInputError
from mixfold.core.value import value

LOWEST = -1e300
LEAST_SPREAD = 1e-9  # of the level: numbers that are all alike differ by rounding
WITHIN = 0.6827  # of a Gaussian's numbers, this share is within one deviation


@value
class Heard:
    """The last numbers, and the sum of falls."""

    recent: list[float]
    total: float


@value
class PageHinkley(Detector):
    """S <- max(0, S + min((m - x) / s, most) - delta); a fall where S > threshold.

    m is the median of the last `memory` numbers and s the deviation of the steps between them: two
    thirds are within s of the median step. So the numbers' scale does not matter, nor that they
    rise. One number counts for at most `most` deviations, and two outliers are no fall. The first
    `least` numbers, and as many after a fall, are only listened to.

    Examples
    --------
    >>> rule = PageHinkley(least=8)
    >>> state, falls = rule.begin(), []
    >>> for x in [0.1, -0.1, 0.2, 0.0] * 5 + [-3.0] * 4:
    ...     state, fallen = rule.hear(state, x)
    ...     falls.append(fallen)
    >>> falls.index(True)
    22

    References
    ----------
    Page (1954), Continuous inspection schemes; Hinkley (1971), Inference about the change-point
    from cumulative sum tests. Theirs has a mean for m, and s known.
    """

    delta: float = 1.0
    threshold: float = 11.0
    most: float = 5.0
    memory: int = 128
    least: int = 20

    def __post_init__(self) -> None:
        check_above("delta", self.delta, 0.0)
        check_above("threshold", self.threshold, 0.0)
        check_above("most", self.most, self.delta)
        check_whole("least", self.least, 2)
        check_whole("memory", self.memory, self.least)

    def begin(self) -> Heard:
        return Heard([], 0.0)

    def check_state(self, state: Heard) -> None:
        check_kind("heard", state, Heard)
        check_array("recent", np.array(state.recent), (len(state.recent),), LOWEST, -LOWEST)
        check_least("total", state.total, 0.0)

    def hear(self, state: Heard, number: float) -> tuple[Heard, bool]:
        if isnan(number):
            raise InvalidInputError("a detector has heard NaN: numbers are needed")
        number = max(float(number), LOWEST)
        total = 0.0
        if len(state.recent) >= self.least:
            fall = min(self._below(state.recent, number), self.most)
            total = max(0.0, state.total + fall - self.delta)
        if total > self.threshold:
            return self.begin(), True
        return Heard([*state.recent, number][-self.memory :], total), False

    def _below(self, recent: list[float], number: float) -> float:
        """How many deviations the number is below the level."""
        level = _quantile(recent, 0.5)
        steps = [after - before for before, after in pairwise(recent)]
        usual = _quantile(steps, 0.5)
        spread = _quantile([abs(step - usual) for step in steps], WITHIN)
        return (level - number) / max(spread, LEAST_SPREAD * max(1.0, abs(level)))


def _quantile(numbers: list[float], share: float) -> float:
    return sorted(numbers)[int(share * len(numbers))]
