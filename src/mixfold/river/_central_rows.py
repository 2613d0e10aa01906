"""A mixture that does not learn the most unusual rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from mixfold.core.rows import Array
from mixfold.estimators.mixture import Mixture
from mixfold.river._columns import Columns

RECENT = 1000  # rows whose log-densities say which are unusual
FIRST_FITS = 3  # of the first rows, each without those that the one before finds unusual


class CentralRows:
    """A mixture of all rows but a fraction, those of lowest density among the latest.

    So that a few far rows do not widen it.
    """

    def __init__(self, mixture: Mixture, left_out: float) -> None:
        self.mixture, self._left_out = mixture, left_out
        self._recent: Array | None = None

    def score_one(self, row: Any) -> float:
        """Log-density of a row."""
        return self.mixture.score_one(row)

    def score_samples(self, block: Any) -> Any:
        """Log-densities of a block of rows."""
        return self.mixture.score_samples(block)

    def learn(self, columns: Columns, block: Any) -> None:
        """Learn the rows of a block that are not unusual."""
        if self._recent is None:
            self._begin(columns, block)
            return
        found = self.mixture.score_samples(block)
        self._recent = np.concatenate([self._recent, found])[-RECENT:]
        usual = found >= np.quantile(self._recent, self._left_out)
        if usual.any():
            columns.learn(self.mixture, columns.chosen(block, usual))

    def _begin(self, columns: Columns, block: Any) -> None:
        """Initial parameters from the first rows."""
        mixture, usual = self.mixture, block
        for _ in range(FIRST_FITS):
            mixture = clone(self.mixture).partial_fit(usual)
            found = mixture.score_samples(block)
            usual = columns.chosen(block, found >= np.quantile(found, self._left_out))
        self.mixture, self._recent = mixture, found
