"""Products of negative binomial distributions whose sizes are estimated."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import LOWEST, check_array, check_kind, check_least
from mixfold.core.errors import InvalidInputError
from mixfold.core.expression import Expression, observed
from mixfold.core.family import n_components_with
from mixfold.core.limits import LARGEST, SMALLEST
from mixfold.core.rows import Array
from mixfold.core.statistics import Block, Blocks
from mixfold.core.support import Support
from mixfold.core.value import value
from mixfold.core.variance_floors import TOUCHING
from mixfold.families import _gamma_expressions as expressions
from mixfold.families._expected_statistics import ExpectedStatistics, towards
from mixfold.families._failures import failures_divergence, poisson_counts
from mixfold.families._gamma_ratios import log_rising_coefficient
from mixfold.families._gamma_shapes import log_less_digamma, shape_slope

LEAST_SIZE, LARGEST_SIZE = 1e-6, 1e6
LEAST_INITIAL, LARGEST_INITIAL = 0.05, 50.0  # where estimates of sizes begin
FEWER = 4  # times fewer counts than rows, for which functions of counts are computed once


@value
class NegativeBinomialParams:
    """Means and sizes (K, d)."""

    means: Array
    sizes: Array


@value
class NegativeBinomialSizes(ExpectedStatistics[NegativeBinomialParams]):
    """Negative binomial counts with a size for each component and column, which is estimated.

    It is what `NegativeBinomial(size=None)` returns. The mean is the mean of the rows, whatever
    the size s is, and the derivative of their mean log-likelihood by s is g(s) - log(1 + mean/s)
    with g(s) = mean of 1/s + ... + 1/(s + x - 1). Statistics are x, and g and its derivative at
    the present size. They bound g from below at larger sizes and from above at smaller ones, and
    the maximum of the bound of the likelihood is the next size.

    `means_`, `sizes_` and `probabilities_`, size / (size + mean), are attributes of a fitted model.
    A size at 1e6 means counts that vary as little as Poisson counts, or less.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold import Mixture, NegativeBinomial
    >>> x = np.random.default_rng(0).negative_binomial(3.0, 0.2, size=(20000, 1))
    >>> model = Mixture(NegativeBinomial(size=None), 1).fit(x)
    >>> model.sizes_.round(), model.means_.round()
    (array([[3.]]), array([[12.]]))
    """

    registered_as: ClassVar[str] = "negative-binomial"
    support = Support(low=0.0, whole=True)

    size: None = None
    floor: float = 1e-8

    def __post_init__(self) -> None:
        if self.size is not None:
            raise InvalidInputError(f"size is {self.size!r}: use NegativeBinomial({self.size!r})")
        check_least("floor", self.floor, 0.0, 1.0)

    def __repr__(self) -> str:
        return f"NegativeBinomial(size=None, floor={self.floor!r})"

    def check_params(self, params: NegativeBinomialParams, k: int, d: int) -> None:
        check_kind("components", params, NegativeBinomialParams)
        check_array("means", params.means, (k, d), LOWEST)
        check_array("sizes", params.sizes, (k, d), 0.5 * LEAST_SIZE, 2.0 * LARGEST_SIZE)

    def example(self, k: int, d: int, rng: np.random.Generator) -> NegativeBinomialParams:
        means = np.exp(rng.uniform(-0.5, 4.0, size=(k, d)))
        return NegativeBinomialParams(means, rng.uniform(5.0, 30.0, size=(k, d)))

    def n_parameters(self, k: int, d: int) -> int:
        return 2 * k * d

    def log_density(self, params: NegativeBinomialParams, x: Array) -> Array:
        numbers = few_counts(x)
        if numbers is None:
            return self._log_densities(params, x)
        table = log_density_table(params, int(numbers.max()))
        found: Array = table[0].take(numbers[:, 0], axis=0)
        for column, own in zip(table[1:], numbers.T[1:], strict=True):
            found += column.take(own, axis=0)
        return found

    def _log_densities(self, params: NegativeBinomialParams, x: Array) -> Array:
        x, means, sizes = x[:, None], params.means, params.sizes
        found = log_rising_coefficient(sizes, x) - x * np.log1p(sizes / means)
        return np.asarray((found - sizes * np.log1p(means / sizes)).sum(axis=2))

    def density_expression(
        self, params: NegativeBinomialParams, x: Expression, marginalize: bool
    ) -> Expression:
        means, sizes, counts = params.means, params.sizes, x.with_axis(1)
        found = expressions.log_rising_coefficient(sizes, counts)
        found = found - counts * np.log1p(sizes / means) - sizes * np.log1p(means / sizes)
        return (observed(counts, found) if marginalize else found).sum(2)

    def scipy_log_density(self, params: NegativeBinomialParams, x: Array) -> Array:
        from scipy.stats import nbinom

        p = params.sizes / (params.sizes + params.means)
        return np.asarray(nbinom.logpmf(x[:, None], params.sizes, p).sum(axis=2))

    def sample(
        self, params: NegativeBinomialParams, labels: np.ndarray, rng: np.random.Generator
    ) -> Array:
        """Poisson counts whose rates have a gamma distribution."""
        sizes = params.sizes[labels]
        return poisson_counts(rng.gamma(sizes, params.means[labels] / sizes), rng)

    # statistics: x, g, minus the derivative of g, and log(size), in all columns

    def n_statistics(self, d: int) -> int:
        return 4 * d

    def sums(self, params: NegativeBinomialParams, x: Array, responsibilities: Array) -> Array:
        """Where there are few different counts, from the responsibility for each of them."""
        numbers = few_counts(x)
        if numbers is None:
            return super().sums(params, x, responsibilities)
        most, columns = int(numbers.max()), np.ascontiguousarray(responsibilities.T)
        by_count = np.array(
            [[np.bincount(own, r, most + 1) for own in numbers.T] for r in columns]
        )  # (K, d, counts)
        total = responsibilities.sum(axis=0)[:, None]
        g, curvature = derivative_tables(params, most)
        parts = [by_count @ np.arange(most + 1.0), (by_count * g).sum(axis=2)]
        parts += [(by_count * curvature).sum(axis=2), total * np.log(params.sizes)]
        return np.hstack([total, *parts])

    def expected_statistics(self, params: NegativeBinomialParams, x: Array) -> Array:
        sizes = params.sizes[:, None]
        total = sizes + x
        # differences of digamma and trigamma functions, without cancellation at large sizes
        g = np.log1p(x / sizes) + (log_less_digamma(sizes) - log_less_digamma(total))
        rest = shape_slope(total) / total - shape_slope(sizes) / sizes
        curvature = x / total / sizes + rest
        return np.concatenate(np.broadcast_arrays(x, g, curvature, np.log(sizes)), axis=2)

    def initial_params(self, x: Array, normalized: Array) -> NegativeBinomialParams:
        means = normalized @ x
        sizes = _sizes_by_moments(means, normalized @ np.square(x - means))
        return NegativeBinomialParams(means[None], sizes[None])

    def expected(self, params: NegativeBinomialParams, weights: Array) -> Blocks:
        """The curvature has no closed form; an upper bound would only make steps shorter."""
        m, s = params.means, params.sizes
        g, part = np.log1p(m / s), m / (s + m)
        information = -np.square(part) * shape_slope(s) / s
        curvature = np.minimum(part / s + information, g / s)
        return (Block.of_means(weights.copy(), np.hstack([m, g, curvature, np.log(s)])),)

    def maximize(self, blocks: Blocks) -> tuple[NegativeBinomialParams, int]:
        (block,) = blocks
        mean, g, curvature, log_sizes = np.hsplit(block.mean, 4)
        floor = self._floors(block.pooled(mean))
        healthy = mean >= floor
        means = np.where(healthy, mean, floor)
        present = np.exp(log_sizes).clip(LEAST_SIZE, LARGEST_SIZE)
        sizes = next_sizes(means, g, curvature, present)
        return NegativeBinomialParams(means, sizes), n_components_with(~healthy)

    def _floors(self, mean: Array) -> Array:
        """The smallest mean of every column, of rows with these means."""
        return np.maximum(self.floor * mean, SMALLEST)

    def degenerate(self, params: NegativeBinomialParams, weights: Array) -> NDArray[np.bool_]:
        """Where a mean is on its floor."""
        return np.asarray(params.means <= TOUCHING * self._floors(weights @ params.means))

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """That of a known size, which is the size of all rows by moments, or one if it is less."""
        normalized = weight / weight.sum()
        return failures_divergence(
            x, centers, weight, np.maximum(self.initial_params(x, normalized).sizes[0], 1.0)
        )

    def attributes(self, params: NegativeBinomialParams) -> dict[str, Array]:
        """Means, sizes, and the probabilities of success."""
        p = params.sizes / (params.sizes + params.means)
        return {"means": params.means, "sizes": params.sizes, "probabilities": p}

    # capabilities

    def standard_deviations(self, params: NegativeBinomialParams) -> Array:
        return np.sqrt(params.means * (1.0 + params.means / params.sizes))

    def unconstrained(self, params: NegativeBinomialParams) -> Array:
        return np.log(np.hstack([params.means, params.sizes]))

    def constrained(
        self, coordinates: Array, like: NegativeBinomialParams
    ) -> NegativeBinomialParams:
        log_means, log_sizes = np.hsplit(coordinates, 2)
        means = np.exp(log_means.clip(*np.log([SMALLEST, LARGEST])))
        sizes = np.exp(log_sizes.clip(*np.log([LEAST_SIZE, LARGEST_SIZE])))
        return NegativeBinomialParams(means, sizes)

    def coordinate_scales(self, params: NegativeBinomialParams) -> Array:
        # the larger a size, the less do rows tell about it
        return np.hstack([np.ones_like(params.means), 1.0 + params.sizes / params.means])

    def parameter_bounds(self, params: NegativeBinomialParams) -> tuple[float, float, float]:
        return float(params.means.max()), float(params.means.min()), float(params.means.max())


def _sizes_by_moments(means: Array, variances: Array) -> Array:
    """mean^2 / (variance - mean), within the limits of initial sizes."""
    more = np.maximum(variances - means, np.square(means) / LARGEST_INITIAL)
    found = np.divide(np.square(means), more, out=np.ones_like(means), where=more > 0.0)
    return np.maximum(found, LEAST_INITIAL)


def next_sizes(means: Array, g: Array, curvature: Array, present: Array) -> Array:
    """The sizes of highest likelihood by a bound of g, given g and -g' at the present sizes s.

    With weights w_j, g(s + e) is the sum of w_j v_j / (1 + e v_j) over v_j = 1 / (s + j), which
    are between zero and 1/s. It is convex in v, and the mean of v is known. So by Jensen's
    inequality g is at least what it would be if all v were equal, which bounds the likelihood of
    larger sizes; and at most what it would be if all v were at the ends, which bounds that of
    smaller sizes. Each bound has one maximum on its side.
    """
    g = np.maximum(g, 0.0)
    at_end = np.clip(curvature * present, 0.0, g)  # weight of v = 1/s, if all are at the ends
    center = np.divide(at_end, g, out=np.ones_like(g), where=g > 0.0) / present
    score = g - np.log1p(means / present)
    up, down = score > 0.0, (score < 0.0) & (g > 0.0)
    sign, rest = np.where(up, 1.0, -1.0), g - at_end

    def slope(size: Array) -> Array:
        larger = g / (1.0 + (size - present) * center)
        bound = np.where(up, larger, rest + at_end * (present / size))
        return np.asarray(sign * (bound - np.log1p(means / size)))

    found = towards(slope, present, np.where(up, LARGEST_SIZE, LEAST_SIZE))
    return np.where(up | down, found, present)


def few_counts(x: Array) -> NDArray[np.intp] | None:
    """Rows as integers, if there are several times fewer counts than rows; None if not.

    Functions of few counts take much less time than those of all cells.
    """
    if not len(x) or not x.max() < len(x) / FEWER:
        return None
    return np.asarray(x.T.astype(np.intp, order="C").T)


def log_density_table(params: NegativeBinomialParams, most: int) -> Array:
    """Log densities of all counts from zero to `most`, (d, counts, K).

    The ratio of the probabilities of x + 1 and x is (size + x) / (size + mean) * mean / (x + 1).
    """
    means, sizes = params.means.T[:, None], params.sizes.T[:, None]
    x = np.arange(float(most))[:, None]
    table = np.empty((len(means), most + 1, means.shape[2]))
    table[:, :1] = -sizes * np.log1p(means / sizes)
    ratios = (sizes + x) / (sizes + means) * (means / (x + 1.0))
    np.cumsum(np.log(ratios), axis=1, out=table[:, 1:])
    table[:, 1:] += table[:, :1]
    return table


def derivative_tables(params: NegativeBinomialParams, most: int) -> tuple[Array, Array]:
    """1/s + ... + 1/(s + x - 1) of all counts x up to `most`, and minus its derivative by s.

    Both are (K, d, counts).
    """
    terms = 1.0 / (params.sizes[:, :, None] + np.arange(float(most)))
    found = np.zeros((2, *terms.shape[:2], most + 1))
    np.cumsum(terms, axis=2, out=found[0, :, :, 1:])
    np.cumsum(np.square(terms), axis=2, out=found[1, :, :, 1:])
    return found[0], found[1]
