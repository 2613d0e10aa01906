"""Families with one scale per column, of which a statistic is exponentially distributed."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import check_array, check_kind
from mixfold.core.column_means import MeansAreAttributes
from mixfold.core.conjugate import Conjugate
from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.family import n_components_with
from mixfold.core.independent_columns import IndependentColumns
from mixfold.core.limits import LARGEST, SMALLEST
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.core.support import Support
from mixfold.core.variance_floors import TOUCHING
from mixfold.families._divergences import itakura_saito
from mixfold.families._scale_rates import ScaleParams, ScaleRates

__all__ = ["ScaleParams", "Scales"]

FLOOR = 1e-8  # smallest scale of a component, as a fraction of the scale of all rows


class Scales(MeansAreAttributes, IndependentColumns, ExponentialFamily[ScaleParams]):
    """Base of families in which t(x) of each column has an exponential distribution of mean theta.

    eta = -1/theta and A = log(theta), where theta is a power of the scale.
    """

    @abstractmethod
    def to_theta(self, scales: Array) -> Array:
        """E[t(x)] of components with these scales."""

    @abstractmethod
    def to_scales(self, theta: Array) -> Array:
        """The inverse of `to_theta`."""

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest scale, at which theta too is from 1e-60 to 1e60."""
        with np.errstate(over="ignore", under="ignore"):
            low, high = self.to_scales(np.array([SMALLEST, LARGEST]))
        return max(float(low), SMALLEST), min(float(high), LARGEST)

    @property
    def accepted(self) -> Support:
        """The values that are accepted: those of the support for which t(x) is at most 1e60."""
        return self.support

    @property
    def support_message(self) -> str:
        return self.accepted.message

    def out_of_support(self, x: Array) -> np.ndarray | None:
        return self.accepted.excludes(x)

    def check_params(self, params: ScaleParams, k: int, d: int) -> None:
        low, high = self.limits
        check_kind("components", params, ScaleParams)
        check_array("scales", params.scales, (k, d), 0.5 * low, 2.0 * high)

    def example(self, k: int, d: int, rng: np.random.Generator) -> ScaleParams:
        return ScaleParams(rng.uniform(0.5, 8.0, size=(k, d)))

    def n_statistics(self, d: int) -> int:
        return d

    def to_natural(self, params: ScaleParams) -> Array:
        return np.asarray(-1.0 / self.to_theta(params.scales))

    def log_normalizer(self, eta: Array) -> Array:
        return np.asarray(-np.log(-eta).sum(axis=1))

    def mean(self, params: ScaleParams) -> Array:
        return self.to_theta(params.scales)

    def maximize(self, blocks: Blocks) -> tuple[ScaleParams, int]:
        (block,) = blocks
        theta = block.mean.clip(0.0, self.to_theta(np.array(self.limits[1])))
        floor = self._floors(block.pooled(theta))
        scales = self.to_scales(theta)
        count_degenerate = n_components_with(scales < floor)
        return ScaleParams(np.maximum(scales, floor)), count_degenerate

    def _floors(self, theta: Array) -> Array:
        """The smallest scale of every column, of rows with these means of t(x)."""
        return np.maximum(FLOOR * self.to_scales(theta), self.limits[0])

    def degenerate(self, params: ScaleParams, weights: Array) -> NDArray[np.bool_]:
        """Where a scale is on its floor."""
        floor = self._floors(weights @ self.to_theta(params.scales))
        return np.asarray(params.scales <= TOUCHING * floor)

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """The Itakura-Saito divergence of t(x) from t(c), summed over columns."""
        t, c = self.sufficient_statistics(x), self.sufficient_statistics(centers)
        return itakura_saito(t, c, weight)

    # capabilities

    @property
    def conjugate(self) -> Conjugate:
        return ScaleRates(self)

    def unconstrained(self, params: ScaleParams) -> Array:
        return np.log(params.scales)

    def constrained(self, coordinates: Array, like: ScaleParams) -> ScaleParams:
        return ScaleParams(np.exp(coordinates.clip(*np.log(self.limits))))

    def coordinate_scales(self, params: ScaleParams) -> Array:
        return np.ones_like(params.scales)
