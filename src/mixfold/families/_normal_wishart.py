"""Conjugate posteriors of Gaussians with full covariances, and functions shared with diagonal ones.

mu | Lambda ~ N(mean, (kappa Lambda)^-1), Lambda ~ Wishart(nu, W). The state holds the Cholesky
factor of V = W^-1. A row changes it by a positive rank-one update, so that W, its inverse and its
determinant stay consistent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import LARGEST_SQUARE, LOWEST, check_array, check_kind
from mixfold.core.conjugate import REACH, Conjugate, Prior, joined, retained_fraction
from mixfold.core.errors import InvalidInputError
from mixfold.core.limits import LEAST_VARIANCE
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks, unpack
from mixfold.core.value import value
from mixfold.families._covariance import check_lower, cholesky_floored
from mixfold.families._gaussian_params import GaussianParams
from mixfold.families._variance_limits import VarianceLimits

FLOOR = 1e-14
LOG_PI = float(np.log(np.pi))
SPARE = 3.0  # default degrees of freedom of a prior, above d
DRAWS = 2000  # draws of covariances for intervals
LEAST_SPARE = 1.5  # smallest degrees of freedom after moment matching, above d


@value
class NormalWishartPosterior:
    """Means (K, d), kappa and nu (K,) and scales (K, d, d); all (K, d) if diagonal."""

    mean: Array
    kappa: Array
    nu: Array
    scale: Array


@value
class Matched:
    """A row's effect on a posterior: mean + shift e, V = scale (V + spread ee')."""

    shift: Array
    scale: Array
    spread: Array
    kappa: Array
    nu: Array
    floored: NDArray[np.bool_]


def matched(d: int, kappa: Array, nu: Array, q: Array, c: Array, weight: float) -> Matched:
    """The normal-Wishart with the moments of c NW' + (1 - c) NW, NW' being NW after the row.

    `q` = e' W e, where e is the row's distance from the mean. Moments are summed in coordinates in
    which W is the identity; so the columns' units do not matter, and the sums depend on q alone.
    """
    more, share = nu + weight, weight / (kappa + weight)
    beta = kappa * share
    lost = beta * q / (1.0 + beta * q)  # W' = I - lost uu', |u| = 1
    kept = 1.0 / (1.0 + beta * q)  # 1 - lost; as a difference it would be 0 for a row far away
    a, b = nu + c * weight, c * more * lost  # E[Lambda] = a I - b uu'
    left = (1.0 - c) * nu + c * more * kept  # a - b
    apart = weight**2 * (d - 1.0) + np.square(weight - more * lost)
    after = more * (d - 1.0 + np.square(kept) + np.square(d - lost))
    variance = c * (1.0 - c) * apart + c * after + (1.0 - c) * nu * (d + d**2)
    found = (a**2 * (d - 1.0) + np.square(left) + np.square(a * d - b)) / variance
    least = d + LEAST_SPARE
    fresh = np.maximum(found, least)
    scale, stretch = fresh / a, b / left  # V = scale (V + stretch ee' / q)
    spread = c * more * beta / (left * (1.0 + beta * q))
    about = c * (1.0 - c) * np.square(share) * q
    about = about + c * (d + beta * q) / ((kappa + weight) * (more - d - 1.0))
    about = about + (1.0 - c) * d / (kappa * (nu - d - 1.0))
    sure = scale * (d + stretch) / ((fresh - d - 1.0) * about)
    return Matched(c * share, scale, spread, sure, fresh, found < least)


def log_gamma_ratio(d: int, nu: Array, weight: Array) -> Array:
    """log Gamma_d((nu + weight) / 2) - log Gamma_d(nu / 2)."""
    from scipy.special import gammaln

    halves = 0.5 * (nu[..., None] - np.arange(d))
    rise = gammaln(halves + 0.5 * weight[..., None]) - gammaln(halves)
    return np.asarray(rise.sum(axis=-1))


def log_evidence(
    d: int, posterior: NormalWishartPosterior, log_root: Array, q: Array, weight: Array
) -> Array:
    """log of the density of a row of some weight: of a t distribution where it is one."""
    kappa, nu = posterior.kappa, posterior.nu
    nu, weight = np.broadcast_arrays(nu, weight)
    beta = kappa * weight / (kappa + weight)
    shrunk = 0.5 * d * np.log(kappa / (kappa + weight)) + log_gamma_ratio(d, nu, weight)
    scale = weight * (0.5 * d * LOG_PI + log_root)
    return np.asarray(shrunk - scale - 0.5 * (nu + weight) * np.log1p(beta * q))


def degrees(prior: Prior, d: int) -> float:
    """nu of the prior."""
    nu = d + SPARE if prior.nu is None else float(prior.nu)
    if not nu > d + 1:
        raise InvalidInputError(
            f"nu of the prior is {nu:g} for {d} columns: it must be above {d + 1}, so that the "
            "covariance has a mean"
        )
    return nu


def log_gap(d: int, nu: Array, kappa: Array) -> Array:
    """E[log N(x; mu, Lambda^-1)] less the log density at the mean and at Lambda = nu W."""
    from scipy.special import digamma

    log_precision = digamma(0.5 * (nu[..., None] - np.arange(d))).sum(axis=-1)
    return np.asarray(0.5 * (log_precision - d * np.log(0.5 * nu) - d / kappa))


def mean_intervals(
    mean: Array, v: Array, kappa: Array, freedom: Array, level: float
) -> tuple[Array, Array]:
    """Of means, whose posteriors are t distributions of `freedom` degrees."""
    from scipy.special import stdtrit

    half = stdtrit(freedom, 0.5 + 0.5 * level) * np.sqrt(v / (kappa * freedom))
    return mean - half, mean + half


def variance_intervals(v: Array, freedom: Array, level: float) -> tuple[Array, Array]:
    """Of variances, whose posteriors are inverse chi-squared."""
    from scipy.special import gammainccinv

    low, high = 0.5 - 0.5 * level, 0.5 + 0.5 * level
    return 0.5 * v / gammainccinv(0.5 * freedom, low), 0.5 * v / gammainccinv(0.5 * freedom, high)


def pooled(
    before: NormalWishartPosterior, parts: Sequence[NormalWishartPosterior]
) -> tuple[Array, Array, Array, Array]:
    """kappa, nu and mean whose natural parameters are joined, and the retained fraction."""
    d = before.mean.shape[1] if before.kappa.ndim == 1 else 1
    kappas, spare = [p.kappa for p in parts], [p.nu - d for p in parts]
    share = np.minimum(
        retained_fraction(before.kappa, kappas), retained_fraction(before.nu - d, spare)
    )
    kappa = joined(before.kappa, kappas, share)
    nu = d + joined(before.nu - d, spare, share)
    width = before.mean.ndim - before.kappa.ndim
    shift = sum(_wide(p.kappa / kappa, width) * (p.mean - before.mean) for p in parts)
    return kappa, nu, before.mean + shift, share


def _wide(a: Array, more: int) -> Array:
    return a.reshape(a.shape + (1,) * more)


def check_normal(
    posterior: NormalWishartPosterior, shape: tuple[int, ...], mean: tuple[int, ...]
) -> None:
    """Refuse posteriors whose covariances have no mean; `shape` is that of kappa and nu."""
    check_kind("components", posterior, NormalWishartPosterior)
    check_array("mean", posterior.mean, mean)
    check_array("kappa", posterior.kappa, shape, LOWEST, LARGEST_SQUARE)
    check_array("nu", posterior.nu, shape, 0.0, LARGEST_SQUARE)
    d = mean[1] if len(shape) == 1 else 1
    if not (posterior.nu > d + 1.0).all():
        raise InvalidInputError(f"nu is {posterior.nu.min()}: it must be above {d + 1}")


class NormalConjugate(Conjugate[GaussianParams, NormalWishartPosterior]):
    """Base for full and diagonal covariances, with `limits` of the estimated variances.

    The posterior itself has none: V of a constant column does not grow, and V / nu falls to zero.
    """

    compiled = "normal"

    def __init__(self, limits: VarianceLimits[GaussianParams]) -> None:
        self.limits = limits

    def row_counts(self, posterior: NormalWishartPosterior) -> dict[str, float]:
        counts = {"means": posterior.kappa, "covariances": posterior.nu}
        return {name: float(count.sum(axis=0).mean()) for name, count in counts.items()}

    def _floors(self, means: Array, variances: Array, weights: Array) -> Array:
        """The smallest variance of every column, (d,), of components with variances (K, d)."""
        centre = weights @ means
        return self.limits.floors(weights @ (variances + np.square(means - centre)), centre)

    def _within_limits(self, ends: tuple[Array, Array], floor: Array) -> tuple[Array, Array]:
        """Ends of intervals of variances, (K, d), of which estimates are not outside."""
        low, high = (np.maximum(end + self.limits.reg_covar, floor) for end in ends)
        return low, high


class NormalWishart(NormalConjugate):
    """Posteriors of means and full covariances."""

    def check(self, posterior: NormalWishartPosterior, k: int, d: int) -> None:
        check_normal(posterior, (k,), (k, d))
        check_lower("scale", posterior.scale, (k, d, d), LARGEST_SQUARE)

    def prior(self, params: GaussianParams, prior: Prior) -> NormalWishartPosterior:
        k, d = params.means.shape
        nu = degrees(prior, d)
        means = prior.given("means", (k, d))
        covariance = prior.given("covariance", (k, d, d))
        scale = params.scale if covariance is None else _root(covariance)
        return NormalWishartPosterior(
            params.means.copy() if means is None else means,
            np.full(k, prior.kappa),
            np.full(k, nu),
            scale * np.sqrt(nu - d - 1.0),
        )

    def log_evidence(self, posterior: NormalWishartPosterior, x: Array, weight: Array) -> Array:
        q = np.stack([np.square(u).sum(axis=0) for u in self._whitened(posterior, x)], axis=1)
        roots = np.diagonal(posterior.scale, axis1=1, axis2=2)
        log_root = np.log(roots).sum(axis=1)
        return log_evidence(x.shape[1], posterior, log_root, q, weight[:, None])

    def _whitened(self, posterior: NormalWishartPosterior, x: Array) -> list[Array]:
        from scipy.linalg import solve_triangular

        pairs = zip(posterior.scale, posterior.mean, strict=True)
        return [solve_triangular(scale, (x - mean).T, lower=True) for scale, mean in pairs]

    def match(
        self, posterior: NormalWishartPosterior, x: Array, weight: float, c: Array
    ) -> tuple[NormalWishartPosterior, int]:
        q = np.array([np.square(u).sum() for u in self._whitened(posterior, x[None])])
        to = matched(len(x), posterior.kappa, posterior.nu, q, c, weight)
        near, e = c >= REACH, x - posterior.mean
        scale = posterior.scale.copy()
        for k in np.flatnonzero(near):
            scale[k] = np.sqrt(to.scale[k]) * updated(scale[k], np.sqrt(to.spread[k]) * e[k])
        after = NormalWishartPosterior(
            np.where(near[:, None], posterior.mean + to.shift[:, None] * e, posterior.mean),
            np.where(near, to.kappa, posterior.kappa),
            np.where(near, to.nu, posterior.nu),
            scale,
        )
        return after, int((near & to.floored).sum())

    def absorb(self, posterior: NormalWishartPosterior, blocks: Blocks) -> NormalWishartPosterior:
        (block,) = blocks
        n, kappa = block.weight, posterior.kappa + block.weight
        delta = block.mean - posterior.mean
        scatter = n[:, None, None] * unpack(block.scatter, delta.shape[1])
        v = _square(posterior.scale) + scatter + _outer(posterior.kappa * n / kappa, delta)
        mean = posterior.mean + (n / kappa)[:, None] * delta
        return NormalWishartPosterior(mean, kappa, posterior.nu + n, _cholesky(v))

    def combine(
        self, before: NormalWishartPosterior, parts: Sequence[NormalWishartPosterior]
    ) -> NormalWishartPosterior:
        kappa, nu, mean, share = pooled(before, parts)

        def natural(posterior: NormalWishartPosterior) -> Array:
            # V + kappa mean mean' is natural; about the common mean little of it cancels
            return _square(posterior.scale) + _outer(posterior.kappa, posterior.mean - mean)

        v = joined(natural(before), [natural(p) for p in parts], share[:, None, None])
        return NormalWishartPosterior(mean, kappa, nu, _cholesky(v))

    def expected(self, posterior: NormalWishartPosterior, weights: Array) -> GaussianParams:
        return self._params(posterior, posterior.nu - posterior.mean.shape[1] - 1.0, weights)

    def _params(
        self, posterior: NormalWishartPosterior, degrees: Array, weights: Array
    ) -> GaussianParams:
        """Parameters with the covariances V / degrees, `reg_covar` added, and not below floors."""
        scale = posterior.scale / np.sqrt(degrees)[:, None, None]
        if self.limits.reg_covar:
            added = self.limits.reg_covar * np.eye(posterior.mean.shape[1])
            scale = _cholesky(_square(scale) + added)
        floor = self._floors(posterior.mean, np.square(scale).sum(axis=2), weights)
        narrow = (np.square(np.diagonal(scale, axis1=1, axis2=2)) < floor).any(axis=1)
        if narrow.any():
            scale[narrow] = cholesky_floored(_square(scale[narrow]), floor)[0]
        return GaussianParams(posterior.mean, scale)

    def expected_log_params(
        self, posterior: NormalWishartPosterior, weights: Array
    ) -> tuple[GaussianParams, Array]:
        params = self._params(posterior, posterior.nu, weights)
        return params, log_gap(posterior.mean.shape[1], posterior.nu, posterior.kappa)

    def intervals(
        self, posterior: NormalWishartPosterior, weights: Array, level: float
    ) -> dict[str, tuple[Array, Array]]:
        d = posterior.mean.shape[1]
        v = np.diagonal(_square(posterior.scale), axis1=1, axis2=2)
        freedom = (posterior.nu - d + 1.0)[:, None]
        means = mean_intervals(posterior.mean, v, posterior.kappa[:, None], freedom, level)
        ends = np.quantile(_covariances(posterior), [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
        diagonal = np.arange(d)
        variances = np.square(self.expected(posterior, weights).scale).sum(axis=2)
        floor = self._floors(posterior.mean, variances, weights)
        exact = self._within_limits(variance_intervals(v, freedom, level), floor)
        for end, variance in zip(ends, exact, strict=True):
            end[:, diagonal, diagonal] = variance
        return {"means": means, "covariances": (ends[0], ends[1])}


def updated(scale: Array, v: Array) -> Array:
    """The Cholesky factor of scale scale' + vv', column by column."""
    scale, v = scale.copy(), v.copy()
    for j in range(len(v)):
        root = np.hypot(scale[j, j], v[j])
        cosine, sine = root / scale[j, j], v[j] / scale[j, j]
        scale[j, j] = root
        scale[j + 1 :, j] = (scale[j + 1 :, j] + sine * v[j + 1 :]) / cosine
        v[j + 1 :] = cosine * v[j + 1 :] - sine * scale[j + 1 :, j]
    return scale


def _root(covariance: Array) -> Array:
    try:
        if np.allclose(covariance, covariance.swapaxes(1, 2)):
            return np.asarray(np.linalg.cholesky(covariance))
    except np.linalg.LinAlgError:
        pass
    raise InvalidInputError(
        f"covariance of the prior is {covariance[0]!r}: a symmetric, positive-definite matrix is "
        "needed"
    )


def _cholesky(v: Array) -> Array:
    """Cholesky factors of matrices that may be indefinite by rounding or subtraction."""
    least = FLOOR * np.abs(np.diagonal(v, axis1=1, axis2=2)).max(axis=0)
    return cholesky_floored(v, np.maximum(least, LEAST_VARIANCE))[0]


def _square(scale: Array) -> Array:
    return np.asarray(scale @ scale.swapaxes(1, 2))


def _outer(scale: Array, delta: Array) -> Array:
    return np.asarray(scale[:, None, None] * delta[:, :, None] * delta[:, None, :])


def _covariances(posterior: NormalWishartPosterior) -> Array:
    """Draws of the covariances, (draws, K, d, d): L A^-T A^-1 L', A after Bartlett."""
    rng = np.random.default_rng(0)
    k, d = posterior.mean.shape
    a = np.tril(rng.standard_normal((DRAWS, k, d, d)), -1)
    freedom = posterior.nu[:, None] - np.arange(d)
    a[..., np.arange(d), np.arange(d)] = np.sqrt(rng.chisquare(freedom, size=(DRAWS, k, d)))
    root = posterior.scale @ np.linalg.inv(a).swapaxes(2, 3)
    return np.asarray(root @ root.swapaxes(2, 3))
