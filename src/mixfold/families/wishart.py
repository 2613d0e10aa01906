"""Wishart distributions: covariance matrices as rows."""

from __future__ import annotations

from math import isqrt

import numpy as np
from numpy.typing import NDArray

from mixfold.core.arrays import on_host
from mixfold.core.chart import Chart
from mixfold.core.checks import check_array, check_covariance, check_kind
from mixfold.core.eigenvalue_floors import raise_eigenvalues
from mixfold.core.errors import InvalidInputError
from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.limits import LARGEST, SMALLEST
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks, lower_triangle, pack, packed_diagonal, unpack
from mixfold.core.support import Support
from mixfold.core.value import value
from mixfold.core.variance_floors import TOUCHING
from mixfold.families._positive_definite import inverse, is_positive_definite, log_determinants
from mixfold.families._wishart_degrees import excess_degrees, log_gaps

LEAST_EXCESS, MOST = 1e-3, 1e8  # degrees of freedom above p - 1, and all of them
LEAST_EIGENVALUE = 1e-11  # of a mean matrix with ones on its diagonal
STEEPEST = 1e4  # ratio of entries of a triangular root to the one on the diagonal


@value
class WishartParams:
    """Degrees of freedom (K,) and scale matrices (K, p, p)."""

    degrees_of_freedom: Array
    scales: Array


def _order(d: int) -> int:
    """The number p of rows of matrices whose lower triangles have d entries, or fewer."""
    return (isqrt(8 * d + 1) - 1) // 2


def _matrices(x: Array) -> Array:
    """The symmetric matrices (n, p, p) of packed lower triangles (n, d)."""
    return unpack(x, _order(x.shape[1]))


def _traces(matrices: Array) -> Array:
    """Coefficients (n, d) by which a packed matrix S gives the trace of the product with these."""
    p = matrices.shape[1]
    return pack(matrices * (2.0 - np.eye(p)))


@value
class Wishart(ExponentialFamily[WishartParams]):
    """Positive definite matrices S: t(S) = (S, log |S|), eta = (-V^-1 / 2, n / 2).

    A = n/2 log |2 V| + log Gamma_p(n/2) and h = |S|^-(p+1)/2, where V is the scale matrix, n the
    degrees of freedom and Gamma_p the multivariate gamma function. S is p times p, and a row has
    the p (p + 1) / 2 entries of its lower triangle, row by row: S11, S21, S22, S31, ... The
    maximum-likelihood estimates are V = mean(S) / n, and n solves
    p log(n/2) - digamma_p(n/2) = log |mean(S)| - mean(log |S|), by Newton's method. It is above
    p - 1 and at most 1e8; a component whose rows vary less, or of which the mean is singular, is
    degenerate. Rows can be sums of squares and products of n observations or, with scales n times
    smaller, their covariances. `means_` are n V, packed as rows are; `np.tril_indices(p)` are
    the places of the entries.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.stats import wishart
    >>> from mixfold import Mixture
    >>> narrow = wishart.rvs(5, [[1, 0], [0, 1]], size=2000, random_state=0)
    >>> wide = wishart.rvs(20, [[3, 2], [2, 3]], size=2000, random_state=1)
    >>> rows = np.concatenate([narrow, wide])[:, *np.tril_indices(2)]
    >>> model = Mixture("wishart", 2, random_state=0).fit(rows)
    >>> model.degrees_of_freedom_.round().tolist()
    [5.0, 20.0]
    >>> abs(model.scales_[1]).round().tolist()
    [[3.0, 2.0], [2.0, 3.0]]

    References
    ----------
    Anderson (2003), An introduction to multivariate statistical analysis, chapter 7.
    Saint-Jean and Nielsen (2014), Hartigan's method for k-MLE: mixture modeling with Wishart
    distributions and its application to motion retrieval.
    """

    dependence = "a row is a positive definite matrix"
    support_message = (
        "each row must be the lower triangle, row by row, of a positive definite matrix"
    )

    def supports(self, d: int) -> tuple[Support, ...]:
        diagonal = packed_diagonal(_order(d))
        return tuple(Support(low=0.0) if j in diagonal else Support() for j in range(d))

    def out_of_support(self, x: Array) -> np.ndarray | None:
        rows = np.asarray(on_host(x), dtype=np.float64)
        return np.broadcast_to(~is_positive_definite(_matrices(rows))[:, None], rows.shape)

    def into_support(self, x: Array) -> Array:
        """Rows that are not in it get diagonals without sign, and other entries that are small."""
        matrices = _matrices(x.astype(np.float64))
        p = matrices.shape[1]
        least = max(100.0 * SMALLEST, 100.0 * float(np.finfo(x.dtype).tiny))
        sizes = np.maximum(np.abs(np.diagonal(matrices, axis1=1, axis2=2)), least)
        bound = np.sqrt(sizes[:, :, None]) * np.sqrt(sizes[:, None, :])
        inside = matrices.clip(-0.9 / p * bound, 0.9 / p * bound)
        made = pack(np.where(np.eye(p) > 0, bound, inside)).astype(x.dtype)
        return np.where(is_positive_definite(matrices)[:, None], x, made)

    def chart(self, d: int) -> Chart:
        """The entries of the lower triangular root."""
        return Chart(self.supports(d), _roots, _rows_of_roots)

    def check_columns(self, d: int) -> None:
        p = _order(d)
        if p * (p + 1) // 2 != d:
            raise InvalidInputError(
                f"a Wishart mixture has rows of p (p + 1) / 2 columns, the lower triangles of "
                f"matrices, such as {p * (p + 1) // 2} or {(p + 1) * (p + 2) // 2}, not {d}"
            )

    def check_params(self, params: WishartParams, k: int, d: int) -> None:
        p = _order(d)
        check_kind("components", params, WishartParams)
        low = p - 1.0 + 0.5 * LEAST_EXCESS
        check_array("degrees_of_freedom", params.degrees_of_freedom, (k,), low, 2.0 * MOST)
        check_array("scales", params.scales, (k, p, p))
        for scale in params.scales:
            check_covariance("scales", scale, p)

    def example(self, k: int, d: int, rng: np.random.Generator) -> WishartParams:
        p = _order(d)
        roots = rng.normal(size=(k, p, p)) / np.sqrt(p)
        scales = roots @ roots.swapaxes(1, 2) + 0.5 * np.eye(p)
        return WishartParams(p + rng.uniform(3.0, 15.0, size=k), scales)

    def n_statistics(self, d: int) -> int:
        return d + 1

    def sufficient_statistics(self, x: Array) -> Array:
        return np.hstack([x, log_determinants(_matrices(x))[:, None]])

    def log_base_measure(self, x: Array) -> Array:
        return np.asarray(-0.5 * (_order(x.shape[1]) + 1.0) * log_determinants(_matrices(x)))

    def to_natural(self, params: WishartParams) -> Array:
        halves = 0.5 * params.degrees_of_freedom[:, None]
        return np.hstack([-0.5 * _traces(inverse(params.scales)), halves])

    def log_normalizer(self, eta: Array) -> Array:
        from scipy.special import multigammaln

        p, halves = _order(eta.shape[1] - 1), eta[:, -1]
        precisions = _matrices(-eta[:, :-1]) * (0.5 + 0.5 * np.eye(p))
        return np.asarray(multigammaln(halves, p) - halves * log_determinants(precisions))

    def mean(self, params: WishartParams) -> Array:
        p, n = params.scales.shape[1], params.degrees_of_freedom
        means = n[:, None, None] * params.scales
        logs = log_determinants(means) - log_gaps(n - (p - 1.0), p)
        return np.hstack([pack(means), logs[:, None]])

    def scipy_log_density(self, params: WishartParams, x: Array) -> Array:
        from scipy.stats import wishart

        matrices = _matrices(x).transpose(1, 2, 0)
        pairs = zip(params.degrees_of_freedom, params.scales, strict=True)
        return np.stack([np.atleast_1d(wishart.logpdf(matrices, n, v)) for n, v in pairs], axis=1)

    def maximize(self, blocks: Blocks) -> tuple[WishartParams, int]:
        (block,) = blocks
        means, low = _raised(_matrices(block.mean[:, :-1]))
        p = means.shape[1]
        gaps = log_determinants(means) - block.mean[:, -1]
        most, least = log_gaps(np.array([LEAST_EXCESS, MOST - p + 1.0]), p)
        degrees = excess_degrees(gaps.clip(least, most), p) + (p - 1.0)
        params = WishartParams(degrees, means / degrees[:, None, None])
        return params, int((low | (gaps < least)).sum())

    def degenerate(self, params: WishartParams, weights: Array) -> NDArray[np.bool_]:
        """Where the degrees of freedom are at their limit, for all columns alike."""
        k, p, _ = params.scales.shape
        high = params.degrees_of_freedom[:, None] * TOUCHING >= MOST
        return np.broadcast_to(high, (k, p * (p + 1) // 2))

    def sample(self, params: WishartParams, labels: np.ndarray, rng: np.random.Generator) -> Array:
        """By triangular roots with normal entries, and chi entries on the diagonal (Bartlett)."""
        p = params.scales.shape[1]
        roots = np.tril(rng.normal(size=(len(labels), p, p)), -1)
        squares = rng.chisquare(params.degrees_of_freedom[labels][:, None] - np.arange(p))
        roots[:, np.arange(p), np.arange(p)] = np.sqrt(squares)
        roots = np.linalg.cholesky(params.scales)[labels] @ roots
        return pack(roots @ roots.swapaxes(1, 2))

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """The divergence of matrices of Burg: trace(S C^-1) - log |S C^-1| - p."""
        p, c = _order(x.shape[1]), _raised(_matrices(centers))[0]
        logs = log_determinants(_matrices(x))[:, None] - log_determinants(c)
        return np.asarray(np.maximum(x @ _traces(inverse(c)).T - logs - p, 0.0))

    def attributes(self, params: WishartParams) -> dict[str, Array]:
        n, scales = params.degrees_of_freedom, params.scales
        means = n[:, None] * pack(scales)
        return {"means": means, "degrees_of_freedom": n, "scales": scales}

    # capabilities

    def unconstrained(self, params: WishartParams) -> Array:
        """The triangular root of the mean, and the degrees of freedom above p - 1.

        Those above zero are logarithms, and others are divided by the diagonal entry of their row.
        """
        n, p = params.degrees_of_freedom, params.scales.shape[1]
        roots = np.linalg.cholesky(n[:, None, None] * params.scales)
        diagonal = np.diagonal(roots, axis1=1, axis2=2)
        ratios = np.where(np.eye(p) > 0, np.log(diagonal)[:, :, None], roots / diagonal[:, :, None])
        return np.hstack(
            [pack(np.asarray(ratios, dtype=np.float64)), np.log(n - (p - 1.0))[:, None]]
        )

    def constrained(self, coordinates: Array, like: WishartParams) -> WishartParams:
        p = like.scales.shape[1]
        i, j = lower_triangle(p)
        roots = np.zeros((len(coordinates), p, p))
        roots[:, i, j] = coordinates[:, :-1]
        limit = 0.25 * np.log(LARGEST)
        diagonal = np.exp(np.diagonal(roots, axis1=1, axis2=2).clip(-limit, limit))
        ratios = np.where(np.eye(p) > 0, 1.0, roots.clip(-STEEPEST, STEEPEST))
        roots = diagonal[:, :, None] * ratios
        excess = np.exp(coordinates[:, -1].clip(*np.log([LEAST_EXCESS, MOST - p])))
        degrees = excess + (p - 1.0)
        means, _ = _raised(roots @ roots.swapaxes(1, 2))
        return WishartParams(degrees, means / degrees[:, None, None])

    def coordinate_scales(self, params: WishartParams) -> Array:
        k, p, _ = params.scales.shape
        deviations = 1.0 / np.sqrt(params.degrees_of_freedom)[:, None]
        return np.hstack([np.tile(deviations, p * (p + 1) // 2), np.ones((k, 1))])


def _raised(matrices: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Matrices that are positive definite, and which were not: differences of statistics round."""
    sizes = np.maximum(np.diagonal(matrices, axis1=1, axis2=2), 4.0 * SMALLEST)
    roots = np.sqrt(sizes)
    scaled = (matrices / roots[:, :, None] / roots[:, None, :]).clip(-1.0, 1.0)
    raised, low = raise_eigenvalues(scaled, LEAST_EIGENVALUE)
    found = raised * roots[:, :, None] * roots[:, None, :]
    return np.where(low[:, None, None] > 0, found, matrices), low > 0


def _roots(x: Array) -> Array:
    """Lower triangular roots, packed."""
    return pack(np.asarray(np.linalg.cholesky(_matrices(x)), dtype=np.float64))


def _rows_of_roots(packed: Array) -> tuple[Array, Array]:
    """The inverse of `_roots`, and its volume: 2^p times the product of L_ii^(p + 1 - i)."""
    p = _order(packed.shape[1])
    roots = np.tril(_matrices(packed))
    diagonal = np.diagonal(roots, axis1=1, axis2=2)
    volumes = 2.0**p * np.prod(diagonal ** np.arange(p, 0, -1), axis=1)
    return pack(roots @ roots.swapaxes(1, 2)), volumes
