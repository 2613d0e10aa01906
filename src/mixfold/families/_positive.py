"""Families on the non-negative half-line whose only sufficient statistic is the value itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import LOWEST, check_array, check_kind, check_least
from mixfold.core.column_means import MeansAreAttributes
from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.family import n_components_with
from mixfold.core.independent_columns import IndependentColumns
from mixfold.core.limits import SMALLEST
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.core.support import Support
from mixfold.core.variance_floors import TOUCHING
from mixfold.families.mean_params import MeanParams


class Positive(MeansAreAttributes, IndependentColumns, ExponentialFamily[MeanParams]):
    """Base of families whose parameters are positive means."""

    floor: float
    support = Support(low=0.0)

    def __post_init__(self) -> None:
        check_least("floor", self.floor, 0.0, 1.0)

    def check_params(self, params: MeanParams, k: int, d: int) -> None:
        check_kind("components", params, MeanParams)
        check_array("means", params.means, (k, d), LOWEST)

    def example(self, k: int, d: int, rng: np.random.Generator) -> MeanParams:
        return MeanParams(rng.uniform(0.5, 12.0, size=(k, d)))

    def n_statistics(self, d: int) -> int:
        return d

    def sufficient_statistics(self, x: Array) -> Array:
        return x

    def mean(self, params: MeanParams) -> Array:
        return params.means

    def maximize(self, blocks: Blocks) -> tuple[MeanParams, int]:
        (block,) = blocks
        floor = self._floors(block.pooled(block.mean))
        healthy = block.mean >= floor
        count_degenerate = n_components_with(~healthy)
        return MeanParams(np.where(healthy, block.mean, floor)), count_degenerate

    def _floors(self, mean: Array) -> Array:
        """The smallest mean of every column, of rows with these means."""
        return np.maximum(self.floor * mean, SMALLEST)

    def degenerate(self, params: MeanParams, weights: Array) -> NDArray[np.bool_]:
        """Where a mean is on its floor."""
        return params.means <= TOUCHING * self._floors(weights @ params.means)

    # capabilities

    def unconstrained(self, params: MeanParams) -> Array:
        return np.log(params.means)

    def constrained(self, coordinates: Array, like: MeanParams) -> MeanParams:
        return MeanParams(np.exp(coordinates))

    def coordinate_scales(self, params: MeanParams) -> Array:
        return np.ones_like(params.means)

    def to_arrays(self, params: MeanParams) -> tuple[Array, Array]:
        return params.means, np.empty((len(params.means), 0))

    def from_arrays(self, means: Array, factor: Array) -> MeanParams:
        return MeanParams(means)
