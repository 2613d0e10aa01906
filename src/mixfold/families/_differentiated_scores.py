"""Scores of any family, by differences of its log densities.

This is the default for families without scores of their own, and for rows whose missing cells are
integrated out. Coordinates are in units of their natural lengths.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixfold.core.family import Family
from mixfold.core.rows import Array
from mixfold.families._shown_attributes import STEP, At
from mixfold.families._shown_parameters import LocalScores, ShownParameter

WIDE_STEP = 1e-4  # of second differences


@dataclass(frozen=True)
class Coordinates:
    """Local coordinates: parameters at changes of them, and which components share some.

    `index` and `n_free` are as in `LocalScores`, `shown` are the parameters that users see.
    """

    at: At
    index: NDArray[np.intp]
    n_free: int
    shown: Callable[[], list[ShownParameter]]


class DifferentiatedScores(LocalScores):
    """(log p(x | theta + h) - log p(x | theta - h)) / 2h, and second differences.

    All components are moved at once. There are 2q densities of a row for its score, and q (q + 1)
    for second derivatives.
    """

    def __init__(self, family: Family, coordinates: Coordinates) -> None:
        self.family, self.coordinates = family, coordinates
        super().__init__(coordinates.index, coordinates.n_free)

    def _log_density(self, x: Array, step: float, *moved: int) -> Array:
        """Where some coordinates are moved by a step, (n, K)."""
        change = np.zeros(self.index.shape)
        change[:, list(moved)] = step
        found: Array = self.family.log_density(self.coordinates.at(change), x)
        return found

    def scores(self, x: Array) -> Array:
        found = np.empty((len(self.index), len(x), self.index.shape[1]))
        for j in range(self.index.shape[1]):
            up, down = (self._log_density(x, step, j) for step in (STEP, -STEP))
            found[:, :, j] = (up - down).T / (2.0 * STEP)
        return found

    def curvature(self, x: Array, weight: Array) -> Array:
        here, (k, q) = self._log_density(x, 0.0), self.index.shape

        def bend(*moved: int) -> Array:
            """The sum over rows of the second difference in a direction, (K,)."""
            up, down = (self._log_density(x, step, *moved) for step in (WIDE_STEP, -WIDE_STEP))
            away = (up - here) + (down - here)
            return np.asarray((weight * away).sum(axis=0) / WIDE_STEP**2)

        found = np.empty((k, q, q))
        for j in range(q):
            found[:, j, j] = -bend(j)
        for i, j in combinations(range(q), 2):
            both = -bend(i, j) - found[:, i, i] - found[:, j, j]
            found[:, i, j] = found[:, j, i] = 0.5 * both
        return found

    def shown(self) -> list[ShownParameter]:
        return self.coordinates.shown()


def unconstrained_coordinates(
    family: Any, params: Any, shown: Callable[[At, int], list[ShownParameter]]
) -> Coordinates:
    """The unconstrained coordinates of a family, of which components share none."""
    here, lengths = family.unconstrained(params), family.coordinate_scales(params)

    def at(change: Array) -> Any:
        return family.constrained(here + lengths * change, params)

    index = np.arange(here.size).reshape(here.shape)
    return Coordinates(at, index, here.size, lambda: shown(at, here.shape[1]))
