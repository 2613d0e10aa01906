"""Scores of exponential families in their unconstrained coordinates, in natural lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixfold.core.independent_columns import separable
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.families._shown_attributes import attributes_of, shown_attributes, slopes
from mixfold.families._shown_parameters import ShownParameter, StatisticScores, numbered, wide


class NaturalScores(StatisticScores):
    """The score of coordinates theta is (t - E[t]) deta/dtheta, their information dE[t]/deta.

    Coordinates of columns in which a component is at a limit are fixed.
    """

    def __init__(self, family: Any, params: Any, limited: NDArray[np.bool_]) -> None:
        self.family, self.params, self._limited = family, params, limited
        self._mean = family.mean(params)
        self._here, self._lengths = family.unconstrained(params), family.coordinate_scales(params)
        k, self._q = self._here.shape
        self._slopes = slopes(self._at, k, self._q, family.to_natural)
        super().__init__(*numbered(~limited[:, np.arange(self._q) % limited.shape[1]]))

    def _at(self, change: Array) -> Any:
        return self.family.constrained(self._here + self._lengths * change, self.params)

    def scores(self, x: Array) -> Array:
        t = self.family.sufficient_statistics(x)
        away = t[None] - self._mean[:, None]
        return np.asarray(away @ self._slopes)

    @property
    def columns(self) -> NDArray[np.intp] | None:
        d = self._limited.shape[1]
        return None if separable(self.family) is None else np.arange(self._q) % d

    def information(self) -> Array:
        moved = slopes(self._at, len(self._here), self._q, self.family.mean)
        found = self._slopes.swapaxes(1, 2) @ moved
        return np.asarray(0.5 * (found + found.swapaxes(1, 2)))

    @property
    def has_steps(self) -> bool:
        """Blocks of the means of t; some families have moments about means."""
        blocks, mean = self.family.expected(self.params, np.ones(len(self.index))), self._mean
        return len(blocks) == 1 and np.array_equal(blocks[0].mean, mean)

    def totals(self, params: Any, blocks: Blocks) -> Array:
        """In the coordinates about the first parameters, which are zero at the same place."""
        (block,) = blocks
        away = wide(block.weight) * (block.mean - self.family.mean(params))
        return np.asarray((away[:, None] @ self._slopes)[:, 0])

    def moved(self, params: Any, change: Array) -> Any:
        there = self.family.unconstrained(params) + self._lengths * change
        return self.family.constrained(there, params)

    def shown(self) -> list[ShownParameter]:
        attributes = attributes_of(self.family, self.params)
        positive = self.family.support.low >= 0.0
        return shown_attributes(attributes, positive, self.params, self._at, self._q, self._limited)
