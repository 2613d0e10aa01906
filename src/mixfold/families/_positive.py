"""Families on the non-negative half-line whose only sufficient statistic is the value itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import LOWEST, check_array, check_kind, check_least
from mixfold.core.family import Family
from mixfold.core.limits import SMALLEST
from mixfold.core.rows import Array
from mixfold.core.statistics import Statistics
from mixfold.core.value import value
from mixfold.core.variance_floors import TOUCHING


@value
class MeanParams:
    """Means (K, d) of products over columns."""

    means: Array


class Positive(Family):
    """What the exponential and the Poisson family share."""

    floor: float
    needs = "values must be >= 0"

    def __post_init__(self) -> None:
        check_least("floor", self.floor, 0.0, 1.0)

    def outside(self, x: Array) -> np.ndarray:
        return x < 0

    def check_params(self, params: MeanParams, k: int, d: int) -> None:
        check_kind("components", params, MeanParams)
        check_array("means", params.means, (k, d), LOWEST)

    def example(self, k: int, d: int, rng: np.random.Generator) -> MeanParams:
        return MeanParams(rng.uniform(0.5, 12.0, size=(k, d)))

    def mean(self, params: MeanParams) -> Array:
        return params.means

    def expected(self, params: MeanParams, weights: Array) -> Statistics:
        means = params.means.copy()
        return Statistics(weights.copy(), means, np.empty((len(means), 0)), 1.0, 0.0)

    def maximize(self, statistics: Statistics) -> tuple[MeanParams, int]:
        share = statistics.weight / statistics.weight.sum()
        floor = self._floors(share @ statistics.mean)
        healthy = statistics.mean >= floor
        repairs = int((~healthy).any(axis=1).sum())
        return MeanParams(np.where(healthy, statistics.mean, floor)), repairs

    def _floors(self, mean: Array) -> Array:
        """The smallest mean of every column, of rows with these means."""
        return np.maximum(self.floor * mean, SMALLEST)

    def degenerate(self, params: MeanParams, weights: Array) -> NDArray[np.bool_]:
        """Where a mean is on its floor."""
        return params.means <= TOUCHING * self._floors(weights @ params.means)

    def scale(self, x: Array, weight: Array) -> Array:
        return np.asarray(np.maximum((weight / weight.sum()) @ x, SMALLEST))

    def unconstrained(self, params: MeanParams) -> Array:
        return np.log(params.means)

    def constrained(self, coordinates: Array, like: MeanParams) -> MeanParams:
        return MeanParams(np.exp(coordinates))

    def units(self, params: MeanParams) -> Array:
        return np.ones_like(params.means)

    def n_parameters(self, k: int, d: int) -> int:
        return k * d
