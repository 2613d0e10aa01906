"""Products of inverse Gaussian distributions over columns."""

from __future__ import annotations

from math import log, pi

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import HIGHEST, LOWEST, check_array, check_kind
from mixfold.core.expression import Expression, side_by_side
from mixfold.core.family import n_components_with
from mixfold.core.limits import LARGEST, SMALLEST
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.core.value import value
from mixfold.core.variance_floors import TOUCHING
from mixfold.families._above_zero import LEAST_VARIATION, AboveZero, kept_above_zero

MOST_VARIATION = LARGEST / SMALLEST


@value
class InverseGaussianParams:
    """Means and shapes (K, d)."""

    means: Array
    shapes: Array


@value
class InverseGaussian(AboveZero[InverseGaussianParams]):
    """First passage times of Brownian motion with drift: t(x) = (x, 1/x), h = (2 pi x^3)^(-1/2).

    eta = (-shape / (2 mean^2), -shape / 2) and A = -shape / mean - log(shape) / 2, in each column.
    The variance is mean^3 / shape. The maximum-likelihood estimates are the mean of x, and
    1 / shape = mean(1/x) - 1 / mean(x). The standard deviation is at least 1e-4 of the mean; a
    component whose rows vary less is degenerate.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold import Mixture
    >>> rng = np.random.default_rng(0)
    >>> x = np.concatenate([rng.wald(1.0, 3.0, 4000), rng.wald(30.0, 300.0, 4000)])[:, None]
    >>> model = Mixture("inverse-gaussian", 2, random_state=0).fit(x)
    >>> model.means_.round().tolist()
    [[1.0], [30.0]]

    References
    ----------
    Tweedie (1957), Statistical properties of inverse Gaussian distributions.
    """

    def check_params(self, params: InverseGaussianParams, k: int, d: int) -> None:
        check_kind("components", params, InverseGaussianParams)
        check_array("means", params.means, (k, d), LOWEST, HIGHEST)
        low, high = 0.5 * SMALLEST / MOST_VARIATION, 2.0 * LARGEST / LEAST_VARIATION
        check_array("shapes", params.shapes, (k, d), low, high)

    def example(self, k: int, d: int, rng: np.random.Generator) -> InverseGaussianParams:
        means = rng.uniform(0.5, 5.0, size=(k, d))
        return InverseGaussianParams(means, means * rng.uniform(1.0, 9.0, size=(k, d)))

    def n_statistics(self, d: int) -> int:
        return 2 * d

    def sufficient_statistics(self, x: Array) -> Array:
        x = kept_above_zero(x)
        return np.hstack([x, 1.0 / x])

    def log_base_measure(self, x: Array) -> Array:
        logs = np.log(kept_above_zero(x))
        return np.asarray(-0.5 * (log(2.0 * pi) + 3.0 * logs).sum(axis=1))

    def statistics_expression(self, x: Expression) -> Expression:
        x = x.at_least(SMALLEST)
        return side_by_side(x, 1.0 / x)

    def base_measure_expression(self, x: Expression) -> Expression:
        return -0.5 * (log(2.0 * pi) + 3.0 * x.at_least(SMALLEST).log())

    def to_natural(self, params: InverseGaussianParams) -> Array:
        ratio = params.shapes / params.means
        return np.hstack([-0.5 * ratio / params.means, -0.5 * params.shapes])

    def log_normalizer(self, eta: Array) -> Array:
        of_value, of_reciprocal = np.hsplit(-eta, 2)
        ratio = 2.0 * np.sqrt(of_value) * np.sqrt(of_reciprocal)  # shape / mean
        return np.asarray((-ratio - 0.5 * np.log(2.0 * of_reciprocal)).sum(axis=1))

    def mean(self, params: InverseGaussianParams) -> Array:
        return np.hstack([params.means, 1.0 / params.means + 1.0 / params.shapes])

    def scipy_log_density(self, params: InverseGaussianParams, x: Array) -> Array:
        from scipy.stats import invgauss

        ratio = params.means / params.shapes
        return np.asarray(invgauss.logpdf(x[:, None], ratio, scale=params.shapes).sum(axis=2))

    def maximize(self, blocks: Blocks) -> tuple[InverseGaussianParams, int]:
        (block,) = blocks
        means, reciprocals = np.hsplit(block.mean, 2)
        means = means.clip(SMALLEST, LARGEST)
        variation = means * reciprocals - 1.0  # mean / shape, the squared coefficient of variation
        shapes = means / variation.clip(LEAST_VARIATION, MOST_VARIATION)
        count_degenerate = n_components_with(variation < LEAST_VARIATION)
        return InverseGaussianParams(means, shapes), count_degenerate

    def degenerate(self, params: InverseGaussianParams, weights: Array) -> NDArray[np.bool_]:
        """Where the variation is at its limit."""
        return np.asarray(params.means <= TOUCHING * LEAST_VARIATION * params.shapes)

    def sample(
        self, params: InverseGaussianParams, labels: np.ndarray, rng: np.random.Generator
    ) -> Array:
        return kept_above_zero(rng.wald(params.means[labels], params.shapes[labels]))

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """x/c + c/x - 2 = (x - c)^2 / (x c), summed over columns."""
        x = kept_above_zero(x)
        ratios = (x / one for one in kept_above_zero(centers))
        return np.stack([(q + 1.0 / q - 2.0).sum(axis=1) for q in ratios], axis=1)

    # capabilities

    def standard_deviations(self, params: InverseGaussianParams) -> Array:
        return np.asarray(params.means * np.sqrt(params.means / params.shapes))

    def unconstrained(self, params: InverseGaussianParams) -> Array:
        return np.log(np.hstack([params.means, params.shapes / params.means]))

    def constrained(self, coordinates: Array, like: InverseGaussianParams) -> InverseGaussianParams:
        log_means, log_ratios = np.hsplit(coordinates, 2)
        means = np.exp(log_means.clip(*np.log([SMALLEST, LARGEST])))
        ratios = np.exp(log_ratios.clip(*np.log([1.0 / MOST_VARIATION, 1.0 / LEAST_VARIATION])))
        return InverseGaussianParams(means, means * ratios)

    def coordinate_scales(self, params: InverseGaussianParams) -> Array:
        return np.hstack([np.sqrt(params.means / params.shapes), np.ones_like(params.means)])
