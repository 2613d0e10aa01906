"""Products of beta distributions over columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import check_array, check_kind
from mixfold.core.column_means import MeansAreAttributes
from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.expression import Expression, side_by_side
from mixfold.core.family import n_components_with
from mixfold.core.independent_columns import IndependentColumns
from mixfold.core.limits import SMALLEST
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.core.support import Support
from mixfold.core.value import value
from mixfold.core.variance_floors import TOUCHING
from mixfold.families._beta_shapes import beta_shapes, mean_logs

LEAST_SHAPE, MOST_TOTAL = 1e-3, 1e8
BELOW_ONE = float(np.nextafter(1.0, 0.0))
LEAST_LOG = 2.0 * float(np.log(SMALLEST))


@value
class BetaParams:
    """Both shapes (K, d): alphas of x, betas of 1 - x."""

    alphas: Array
    betas: Array


def _inside(x: Array) -> Array:
    """Values at the ends count as the closest numbers inside."""
    return np.clip(x, SMALLEST, BELOW_ONE)


@value
class Beta(MeansAreAttributes, IndependentColumns, ExponentialFamily[BetaParams]):
    """Proportions between 0 and 1: t(x) = (log x, log(1 - x)), eta = (alpha, beta).

    A = log B(alpha, beta) and h = 1 / (x (1 - x)), in each column. The maximum-likelihood shapes
    solve digamma(alpha) - digamma(alpha + beta) = mean(log x), and the same for beta and 1 - x, by
    Newton's method in two variables. alpha + beta is at most 1e8, where the standard deviation is
    below 1e-4; a component that would have a larger sum is degenerate. `means_` are
    alpha / (alpha + beta). Values of exactly 0 or 1 are refused, since their densities are zero or
    infinite.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold import Mixture
    >>> rng = np.random.default_rng(0)
    >>> x = np.concatenate([rng.beta(2.0, 8.0, 4000), rng.beta(60.0, 20.0, 4000)])[:, None]
    >>> model = Mixture("beta", 2, random_state=0).fit(x)
    >>> model.means_.round(2).tolist()
    [[0.2], [0.75]]
    >>> model.alphas_.round(-1).tolist()
    [[0.0], [60.0]]

    References
    ----------
    Minka (2000), Estimating a Dirichlet distribution.
    """

    support = Support(low=0.0, high=1.0)
    support_message = "values must be above 0 and below 1"

    def out_of_support(self, x: Array) -> np.ndarray | None:
        outside: np.ndarray = (x <= 0.0) | (x >= 1.0)
        return outside

    def check_params(self, params: BetaParams, k: int, d: int) -> None:
        check_kind("components", params, BetaParams)
        for name in ("alphas", "betas"):
            low, high = 0.5 * LEAST_SHAPE, 2.0 * MOST_TOTAL
            check_array(name, getattr(params, name), (k, d), low, high)

    def example(self, k: int, d: int, rng: np.random.Generator) -> BetaParams:
        return BetaParams(rng.uniform(1.5, 8.0, size=(k, d)), rng.uniform(1.5, 8.0, size=(k, d)))

    def n_statistics(self, d: int) -> int:
        return 2 * d

    def sufficient_statistics(self, x: Array) -> Array:
        x = _inside(x)
        return np.hstack([np.log(x), np.log1p(-x)])

    def log_base_measure(self, x: Array) -> Array:
        return np.asarray(-self.sufficient_statistics(x).sum(axis=1))

    def statistics_expression(self, x: Expression) -> Expression:
        x = x.at_least(SMALLEST).at_most(BELOW_ONE)
        return side_by_side(x.log(), (1.0 - x).log())

    def base_measure_expression(self, x: Expression) -> Expression:
        x = x.at_least(SMALLEST).at_most(BELOW_ONE)
        return -(x.log() + (1.0 - x).log())

    def to_natural(self, params: BetaParams) -> Array:
        return np.hstack([params.alphas, params.betas])

    def log_normalizer(self, eta: Array) -> Array:
        from scipy.special import betaln

        return np.asarray(betaln(*np.hsplit(eta, 2)).sum(axis=1))

    def mean(self, params: BetaParams) -> Array:
        return np.hstack(mean_logs(params.alphas, params.betas))

    def scipy_log_density(self, params: BetaParams, x: Array) -> Array:
        from scipy.stats import beta

        return np.asarray(beta.logpdf(x[:, None], params.alphas, params.betas).sum(axis=2))

    def maximize(self, blocks: Blocks) -> tuple[BetaParams, int]:
        (block,) = blocks
        of_x, of_rest = np.hsplit(block.mean.clip(LEAST_LOG, 0.0), 2)
        alphas, betas, beyond = beta_shapes(of_x, of_rest, MOST_TOTAL)
        params = BetaParams(np.maximum(alphas, LEAST_SHAPE), np.maximum(betas, LEAST_SHAPE))
        return params, n_components_with(beyond)

    def degenerate(self, params: BetaParams, weights: Array) -> NDArray[np.bool_]:
        """Where the sum of the shapes is at its limit."""
        return np.asarray((params.alphas + params.betas) * TOUCHING >= MOST_TOTAL)

    def sample(self, params: BetaParams, labels: np.ndarray, rng: np.random.Generator) -> Array:
        return _inside(rng.beta(params.alphas[labels], params.betas[labels]))

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """x log(x/c) + (1 - x) log((1 - x) / (1 - c)), summed over columns."""
        from scipy.special import rel_entr

        x = _inside(x)
        pairs = ((rel_entr(x, c), rel_entr(1.0 - x, 1.0 - c)) for c in _inside(centers))
        return np.stack([(one + other).sum(axis=1) for one, other in pairs], axis=1)

    def attributes(self, params: BetaParams) -> dict[str, Array]:
        means = params.alphas / (params.alphas + params.betas)
        return {"means": means, "alphas": params.alphas, "betas": params.betas}

    # capabilities

    def standard_deviations(self, params: BetaParams) -> Array:
        total = params.alphas + params.betas
        product = (params.alphas / total) * (params.betas / total)
        return np.asarray(np.sqrt(product / (total + 1.0)))

    def unconstrained(self, params: BetaParams) -> Array:
        """Logits of the means, and logarithms of the sums of the shapes."""
        logits = np.log(params.alphas / params.betas)
        return np.hstack([logits, np.log(params.alphas + params.betas)])

    def constrained(self, coordinates: Array, like: BetaParams) -> BetaParams:
        from scipy.special import expit

        logits, logs = np.hsplit(coordinates, 2)
        total = np.exp(logs.clip(*np.log([LEAST_SHAPE, MOST_TOTAL])))
        shapes = (np.maximum(total * expit(one), LEAST_SHAPE) for one in (logits, -logits))
        return BetaParams(*shapes)

    def coordinate_scales(self, params: BetaParams) -> Array:
        a, b = params.alphas, params.betas
        return np.hstack([np.sqrt(1.0 / a + 1.0 / b), np.ones_like(a)])
