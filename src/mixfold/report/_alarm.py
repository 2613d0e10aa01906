"""Alarms: rows that are less probable than almost all before them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mixfold.core.checks import check_above, check_array, check_count
from mixfold.core.rows import Array
from mixfold.core.value import value

LEAST_SCORES = 200


@dataclass(frozen=True)
class Cell:
    """A cell of a row, and what it contributes to the log-density; None if that is not known."""

    column: str
    value: str
    contribution: float | None


@dataclass(frozen=True)
class Alarm:
    """A row below the threshold: its number from 1 on, and the cells that made it, worst first.

    `time` is in seconds since 1970.
    """

    row: int
    time: float
    log_density: float
    threshold: float
    cells: tuple[Cell, ...]


@value
class EmpiricalQuantile:
    """A threshold that a fraction `rate` of the latest scores is below.

    It is the r-th smallest of the last n scores, where r is the whole part of rate (n + 1): then a
    row of the same distribution is below it with probability r / (n + 1), at most `rate`. n is at
    most `window`, by default ten times what one expected alarm needs and at least 10,000. There is
    no threshold before there are 200 scores, and enough for r to be at least 1.
    """

    rate: float
    window: int
    latest: Array
    n_scores: int

    def __post_init__(self) -> None:
        check_above("rate", self.rate, 0.0, 0.5)
        check_count("window", self.window)
        check_count("n_scores", self.n_scores)
        check_array("latest", self.latest, (min(self.n_scores, self.window),), -1e300, 1e300)

    @staticmethod
    def at(rate: float) -> EmpiricalQuantile:
        """The threshold for a rate, with its default window."""
        check_above("rate", rate, 0.0, 0.5)
        window = max(10_000, int(np.ceil(10.0 / rate)))
        return EmpiricalQuantile(rate, window, np.empty(0), 0)

    @property
    def threshold(self) -> float | None:
        """Scores below it are alarms; None before there are enough of them."""
        n = len(self.latest)
        r = int(self.rate * (n + 1))
        if n < LEAST_SCORES or r < 1:
            return None
        return float(np.partition(self.latest, r - 1)[r - 1])

    @property
    def scores_needed(self) -> int:
        """How many more scores are needed for a threshold."""
        needed = max(LEAST_SCORES, int(np.ceil(1.0 / self.rate)) - 1)
        return max(0, needed - len(self.latest))

    def after(self, scores: Array) -> EmpiricalQuantile:
        """The threshold after more scores."""
        latest = np.concatenate([self.latest, np.clip(scores, -1e300, 1e300)])[-self.window :]
        return EmpiricalQuantile(self.rate, self.window, latest, self.n_scores + len(scores))
