"""Families in which values, or their reciprocals, have gamma distributions."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mixfold.core.capabilities import KernelTerm
from mixfold.core.checks import check_array, check_kind
from mixfold.core.expression import Expression, side_by_side
from mixfold.core.family import n_components_with
from mixfold.core.limits import LARGEST, SMALLEST
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.core.value import value
from mixfold.core.variance_floors import TOUCHING
from mixfold.families._above_zero import LEAST_VARIATION, AboveZero
from mixfold.families._divergences import itakura_saito
from mixfold.families._gamma_shapes import gamma_shapes, log_less_digamma

LEAST_SHAPE, MOST_SHAPE = 1e-3, 1.0 / LEAST_VARIATION


@value
class GammaParams:
    """Shapes and rates (K, d) of gamma distributions."""

    shapes: Array
    rates: Array


class GammaStatistics(AboveZero[GammaParams]):
    """Base of families in which y, a value or its reciprocal, is Gamma(shape, rate).

    t = (y, log y), eta = (-rate, shape) and A = log Gamma(shape) - shape log(rate); the base
    measure of y is 1/y.
    """

    base_power: ClassVar[float]  # the base measure of x is this power of y

    @abstractmethod
    def gamma_values(self, x: Array) -> Array:
        """The values y above zero that have gamma distributions."""

    def check_params(self, params: GammaParams, k: int, d: int) -> None:
        check_kind("components", params, GammaParams)
        check_array("shapes", params.shapes, (k, d), 0.5 * LEAST_SHAPE, 2.0 * MOST_SHAPE)
        low, high = 0.5 * LEAST_SHAPE / LARGEST, 2.0 * MOST_SHAPE / SMALLEST
        check_array("rates", params.rates, (k, d), low, high)

    def example(self, k: int, d: int, rng: np.random.Generator) -> GammaParams:
        rates = np.exp(rng.uniform(-2.0, 3.0, size=(k, d)))
        return GammaParams(rng.uniform(4.5, 15.0, size=(k, d)), rates)

    def n_statistics(self, d: int) -> int:
        return 2 * d

    def sufficient_statistics(self, x: Array) -> Array:
        y = self.gamma_values(x)
        return np.concatenate([y, np.log(y)], axis=1)

    @abstractmethod
    def gamma_values_expression(self, x: Expression) -> Expression:
        """The values y."""

    def statistics_expression(self, x: Expression) -> Expression:
        y = self.gamma_values_expression(x)
        return side_by_side(y, y.log())

    def base_measure_expression(self, x: Expression) -> Expression:
        return self.base_power * self.gamma_values_expression(x).log()

    def to_natural(self, params: GammaParams) -> Array:
        return np.hstack([-params.rates, params.shapes])

    def log_base_measure(self, x: Array) -> Array:
        return np.asarray(self.base_power * np.log(self.gamma_values(x)).sum(axis=1))

    def kernel_term(self, params: GammaParams) -> KernelTerm | None:
        """The linear form, of which the base measure is part as a power of y."""
        term = super().kernel_term(params)
        assert term is not None
        coefficients = term.parameters
        coefficients[:, -params.shapes.shape[1] :] += self.base_power
        return term._replace(base_measure="one")

    def log_normalizer(self, eta: Array) -> Array:
        from scipy.special import gammaln

        rates, shapes = np.hsplit(eta, 2)
        return np.asarray((gammaln(shapes) - shapes * np.log(-rates)).sum(axis=1))

    def mean(self, params: GammaParams) -> Array:
        means = params.shapes / params.rates
        return np.hstack([means, np.log(means) - log_less_digamma(params.shapes)])

    def maximize(self, blocks: Blocks) -> tuple[GammaParams, int]:
        (block,) = blocks
        means, mean_logs = np.hsplit(block.mean, 2)
        means = means.clip(SMALLEST, LARGEST)
        gap = np.log(means) - mean_logs
        most, least = log_less_digamma(np.array([LEAST_SHAPE, MOST_SHAPE]))
        shapes = gamma_shapes(gap.clip(least, most))
        return GammaParams(shapes, shapes / means), n_components_with(gap < least)

    def degenerate(self, params: GammaParams, weights: Array) -> NDArray[np.bool_]:
        """Where a shape is at its upper limit."""
        return np.asarray(params.shapes * TOUCHING >= MOST_SHAPE)

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """The Itakura-Saito divergence, which is that of gamma distributions of one shape."""
        return itakura_saito(self.gamma_values(x), self.gamma_values(centers), weight)

    # capabilities

    def unconstrained(self, params: GammaParams) -> Array:
        return np.log(np.hstack([params.shapes / params.rates, params.shapes]))

    def constrained(self, coordinates: Array, like: GammaParams) -> GammaParams:
        log_means, log_shapes = np.hsplit(coordinates, 2)
        means = np.exp(log_means.clip(*np.log([SMALLEST, LARGEST])))
        shapes = np.exp(log_shapes.clip(*np.log([LEAST_SHAPE, MOST_SHAPE])))
        return GammaParams(shapes, shapes / means)

    def coordinate_scales(self, params: GammaParams) -> Array:
        return np.hstack([1.0 / np.sqrt(params.shapes), np.ones_like(params.shapes)])
