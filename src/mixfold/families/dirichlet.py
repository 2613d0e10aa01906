"""Dirichlet distributions: rows of proportions that sum to one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixfold.core.chart import Chart
from mixfold.core.checks import check_array, check_kind
from mixfold.core.errors import InvalidInputError
from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.expression import Expression
from mixfold.core.limits import SMALLEST
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.core.support import Support
from mixfold.core.value import value
from mixfold.core.variance_floors import TOUCHING
from mixfold.families._dirichlet_concentrations import dirichlet_concentrations, mean_logs

LEAST, MOST_TOTAL = 1e-3, 1e8  # of a concentration, and of the sum of those of a component
LEAST_LOG = 2.0 * float(np.log(SMALLEST))
TOLERANCE = 1e-5  # by which a sum may differ from one, as in float32


@value
class DirichletParams:
    """Concentrations (K, d)."""

    alphas: Array


def _shares(x: Array) -> Array:
    """Rows without zeros that sum to one, also where rounding has changed the sum."""
    inside = np.maximum(x, SMALLEST)
    return np.asarray(inside / inside.sum(axis=1, keepdims=True))


@value
class Dirichlet(ExponentialFamily[DirichletParams]):
    """Rows of d proportions that sum to one: t(x) = log x, eta = alpha, h = 1 / (x_1 ... x_d).

    A = sum of log Gamma(alpha_j) - log Gamma(sum of alpha_j). The maximum-likelihood concentrations
    alpha solve digamma(alpha_j) - digamma(sum of alphas) = mean(log x_j), by Newton's method in d
    variables. Their sum is at most 1e8, where standard deviations are below 1e-4; a component that
    would have a larger sum is degenerate. `means_` are alpha_j / sum of alphas. A proportion of
    zero counts as 1e-60: where many are zero, as in counts of rare outcomes, a multinomial mixture
    of the counts is better. The density is that of the first d - 1 proportions.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold import Mixture
    >>> rng = np.random.default_rng(0)
    >>> x = np.vstack([rng.dirichlet([2, 2, 6], 4000), rng.dirichlet([60, 20, 20], 4000)])
    >>> model = Mixture("dirichlet", 2, random_state=0).fit(x)
    >>> model.means_.round(1).tolist()
    [[0.2, 0.2, 0.6], [0.6, 0.2, 0.2]]
    >>> model.alphas_.round(-1).tolist()
    [[0.0, 0.0, 10.0], [60.0, 20.0, 20.0]]

    References
    ----------
    Minka (2000), Estimating a Dirichlet distribution.
    """

    dependence = "the values of a row sum to one"
    support = Support(low=0.0, high=1.0)
    support_message = (
        "values must be from 0 to 1, and those of a row must sum to 1: divide rows by their sums,"
    )

    def out_of_support(self, x: Array) -> np.ndarray | None:
        outside: np.ndarray = (x < 0.0) | (x > 1.0)
        wrong = abs(x.sum(axis=1, keepdims=True) - 1.0) > TOLERANCE
        found: np.ndarray = outside | (wrong & ~outside.any(axis=1, keepdims=True))
        return found

    def into_support(self, x: Array) -> Array:
        sizes = np.abs(x.astype(np.float64))
        shares = sizes / np.maximum(sizes.max(axis=1, keepdims=True), SMALLEST)
        return _shares(shares).astype(x.dtype)

    def chart(self, d: int) -> Chart:
        """The share of each proportion but the last in what those before it have left."""
        return Chart((self.support,) * (d - 1), _broken_sticks, _rows_of_sticks)

    def check_columns(self, d: int) -> None:
        if d < 2:
            raise InvalidInputError("a Dirichlet mixture needs at least 2 columns, one by part")

    def check_params(self, params: DirichletParams, k: int, d: int) -> None:
        check_kind("components", params, DirichletParams)
        check_array("alphas", params.alphas, (k, d), 0.5 * LEAST, 2.0 * MOST_TOTAL)

    def example(self, k: int, d: int, rng: np.random.Generator) -> DirichletParams:
        return DirichletParams(rng.uniform(1.5, 8.0, size=(k, d)))

    def n_statistics(self, d: int) -> int:
        return d

    def sufficient_statistics(self, x: Array) -> Array:
        return np.log(_shares(x))

    def log_base_measure(self, x: Array) -> Array:
        return np.asarray(-self.sufficient_statistics(x).sum(axis=1))

    def statistics_expression(self, x: Expression) -> Expression:
        inside = x.at_least(SMALLEST)
        return (inside / inside.sum(1, keepdims=True)).log()

    def base_measure_expression(self, x: Expression) -> Expression:
        return -self.statistics_expression(x).sum(1, keepdims=True)

    def to_natural(self, params: DirichletParams) -> Array:
        return params.alphas

    def log_normalizer(self, eta: Array) -> Array:
        """By beta functions of sums of concentrations, since gamma functions would cancel."""
        from scipy.special import betaln

        before = eta[:, :-1].cumsum(axis=1)
        return np.asarray(betaln(before, eta[:, 1:]).sum(axis=1))

    def mean(self, params: DirichletParams) -> Array:
        return mean_logs(params.alphas)

    def scipy_log_density(self, params: DirichletParams, x: Array) -> Array:
        from scipy.stats import dirichlet

        return np.stack([dirichlet.logpdf(x.T, alphas) for alphas in params.alphas], axis=1)

    def maximize(self, blocks: Blocks) -> tuple[DirichletParams, int]:
        (block,) = blocks
        means = block.mean.clip(LEAST_LOG, 0.0)
        alphas, beyond = dirichlet_concentrations(means, MOST_TOTAL)
        return DirichletParams(np.maximum(alphas, LEAST)), int(beyond.sum())

    def degenerate(self, params: DirichletParams, weights: Array) -> NDArray[np.bool_]:
        """Where the sum of the concentrations is at its limit, for all columns alike."""
        high = params.alphas.sum(axis=1, keepdims=True) * TOUCHING >= MOST_TOTAL
        return np.broadcast_to(high, params.alphas.shape)

    def sample(
        self, params: DirichletParams, labels: np.ndarray, rng: np.random.Generator
    ) -> Array:
        """Gamma variables, divided by their sums; by logarithms, as small shapes underflow."""
        alphas = params.alphas[labels]
        logs = np.log(rng.gamma(alphas + 1.0)) - rng.exponential(size=alphas.shape) / alphas
        return _shares(np.exp(logs - logs.max(axis=1, keepdims=True)))

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """The Kullback-Leibler divergence of proportions, sum of x log(x/c)."""
        from scipy.special import rel_entr

        x = _shares(x)
        return np.stack([rel_entr(x, c).sum(axis=1) for c in _shares(centers)], axis=1)

    def attributes(self, params: DirichletParams) -> dict[str, Array]:
        means = params.alphas / params.alphas.sum(axis=1, keepdims=True)
        return {"means": means, "alphas": params.alphas}

    # capabilities

    def standard_deviations(self, params: DirichletParams) -> Array:
        total = params.alphas.sum(axis=1, keepdims=True)
        share = params.alphas / total
        return np.asarray(np.sqrt(share * (1.0 - share) / (total + 1.0)))

    def unconstrained(self, params: DirichletParams) -> Array:
        return np.log(params.alphas)

    def constrained(self, coordinates: Array, like: DirichletParams) -> DirichletParams:
        alphas = np.exp(coordinates.clip(*np.log([LEAST, MOST_TOTAL])))
        shrink = np.minimum(1.0, MOST_TOTAL / alphas.sum(axis=1, keepdims=True))
        return DirichletParams(np.maximum(shrink * alphas, LEAST))

    def coordinate_scales(self, params: DirichletParams) -> Array:
        return np.asarray(1.0 / np.sqrt(np.maximum(params.alphas, 1.0)))


def _broken_sticks(x: Array) -> Array:
    """Each proportion but the last, divided by what those before it have left."""
    left = x[:, ::-1].cumsum(axis=1)[:, ::-1]
    return np.asarray(x[:, :-1] / left[:, :-1])


def _rows_of_sticks(sticks: Array) -> tuple[Array, Array]:
    """The inverse of `_broken_sticks`, and its volume: the product of what was left each time."""
    left = np.hstack([np.ones((len(sticks), 1)), (1.0 - sticks).cumprod(axis=1)])
    x = left * np.hstack([sticks, np.ones((len(sticks), 1))])
    return x, left[:, :-1].prod(axis=1)
