"""Covariances of low rank plus a diagonal, Sigma = L'L + diag(psi), without a d x d matrix.

Given a row, its factors z are normal: E[z | x] = beta (x - mu), Cov[z | x] = G, with
A = L psi^-1/2, M = I + AA', G = M^-1 and beta = G A psi^-1/2. Loadings L are (K, q, d), as
scikit-learn's `components_` of every component.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mixfold.core.capabilities import LowRank
from mixfold.core.limits import LEAST_VARIANCE
from mixfold.core.rows import Array
from mixfold.core.statistics import unpack
from mixfold.core.value import value

LOG_2PI = float(np.log(2.0 * np.pi))
ROUNDS = 6  # rounds of subspace iteration
MOST_SIGNAL = 1e5  # a loading in units of the noise, next to which M keeps the digits of I
LEAST_SHARE = 0.01  # least fraction of a column's variance, for the initial noise and factors


@value
class FactorParams:
    """Means (K, d), loadings (K, q, d) and variances (K, d) of the noise."""

    means: Array
    loadings: Array
    noise_variance: Array

    def rescaled(self, offset: Array, scale: Array) -> FactorParams:
        """Those of `offset + scale * x`, column by column."""
        noise = self.noise_variance * np.square(scale)
        return FactorParams(self.means * scale + offset, self.loadings * scale, noise)

    def of_columns(self, chosen: Sequence[int] | NDArray[np.intp]) -> FactorParams:
        """The marginal distributions of some of the columns."""
        parts = (self.means[:, chosen], self.loadings[:, :, chosen], self.noise_variance[:, chosen])
        return FactorParams(*map(np.ascontiguousarray, parts))


class Moments(NamedTuple):
    """Second moments of columns and factors about their means, taken out of their packing."""

    variance: Array  # (K, d)
    cross: Array  # (K, q, d)
    factors: Array  # (K, q, q)


def unpacked(scatter: Array, d: int, q: int) -> Moments:
    """Unpack moments: variances, then products with each factor, row by row."""
    starts = [d + h * d + h * (h + 1) // 2 for h in range(q)]
    cross = np.stack([scatter[:, a : a + d] for a in starts], axis=1)
    tails = [scatter[:, a + d : a + d + h + 1] for h, a in enumerate(starts)]
    return Moments(scatter[:, :d], cross, unpack(np.hstack(tails), q))


def packed(moments: Moments) -> Array:
    """The inverse of `unpacked`."""
    parts = [moments.variance]
    for h in range(moments.cross.shape[1]):
        parts += [moments.cross[:, h], moments.factors[:, h, : h + 1]]
    return np.hstack(parts)


class Posterior(NamedTuple):
    """The posterior of factors given rows, and the inverse covariance P - W'W."""

    precision: Array  # P, (K, d): one over the noise
    reach: Array  # W = R^-1 A psi^-1/2, (K, q, d), M = RR'
    beta: Array  # (K, q, d)
    root: Array  # R^-1, (K, q, q), whose square R'^-1 R^-1 is G
    half_log_determinant: Array  # of the covariance, (K,)


def posterior(params: LowRank) -> Posterior:
    """The identities of Woodbury and of the determinant."""
    roots = 1.0 / np.sqrt(params.noise_variance)
    scaled = params.loadings * roots[:, None]
    lower = _lower_root(scaled)
    inverse = np.tril(np.linalg.inv(lower))
    reach = inverse @ (scaled * roots[:, None])
    logs = np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1) - np.log(roots).sum(axis=1)
    beta = inverse.swapaxes(1, 2) @ reach
    return Posterior(np.square(roots), reach, beta, inverse, logs)


def _is_large(scaled: Array) -> NDArray[np.bool_]:
    """Where M would not keep the digits of I, (K,)."""
    return np.asarray(np.abs(scaled).max(axis=(1, 2), initial=0.0) > MOST_SIGNAL)


def _lower_root(scaled: Array) -> Array:
    """R with RR' = M = I + AA', (K, q, q).

    Where a column is many times larger than its noise, M is singular by rounding, and R is found
    without it, from the QR decomposition of I and A'.
    """
    k, q, _ = scaled.shape
    large = _is_large(scaled)
    root, some = np.empty((k, q, q)), scaled[~large]
    root[~large] = np.linalg.cholesky(np.eye(q) + some @ some.swapaxes(1, 2))
    if large.any():
        one = np.broadcast_to(np.eye(q), (int(large.sum()), q, q))
        upper = np.linalg.qr(np.concatenate([one, scaled[large].swapaxes(1, 2)], axis=1))[1]
        sign = np.where(np.diagonal(upper, axis1=1, axis2=2) < 0.0, -1.0, 1.0)
        root[large] = (upper * sign[:, :, None]).swapaxes(1, 2)
    return root


def spread(params: FactorParams) -> Array:
    """G alone, (K, q, q)."""
    scaled = params.loadings / np.sqrt(params.noise_variance)[:, None]
    large = _is_large(scaled)
    found = np.empty((len(scaled), scaled.shape[1], scaled.shape[1]))
    some = scaled[~large]
    found[~large] = np.linalg.inv(np.eye(scaled.shape[1]) + some @ some.swapaxes(1, 2))
    if large.any():
        inverse = np.linalg.inv(_lower_root(scaled[large]))
        found[large] = inverse.swapaxes(1, 2) @ inverse
    return found


def quadratic(params: LowRank, known: Posterior, k: int, centred: Array) -> Array:
    """c' Sigma_k^-1 c of every row c, as |c - L'z|^2 / psi + |z|^2: no term cancels."""
    z = centred @ known.beta[k].T
    rest = centred - z @ params.loadings[k]
    return np.asarray(np.square(rest) @ known.precision[k] + np.square(z).sum(axis=1))


def log_density(params: FactorParams, known: Posterior, x: Array) -> Array:
    """log p(x|k), (n, K)."""
    square = [quadratic(params, known, k, x - mean) for k, mean in enumerate(params.means)]
    logs = 0.5 * x.shape[1] * LOG_2PI + known.half_log_determinant
    return np.asarray(-0.5 * np.stack(square, axis=1) - logs)


def regressed(moments: Moments) -> tuple[Array, Array]:
    """Loadings (K, q, d) and variances of the noise (K, d) that explain the moments best.

    Columns are regressed on factors whose mean and covariance are free and then normalised to zero
    and one. This is parameter expansion: it is faster than EM with both fixed, and has the same
    fixed points.
    """
    size, directions = np.linalg.eigh(moments.factors)
    roots = 1.0 / np.sqrt(np.maximum(size, LEAST_VARIANCE))
    whiten = (directions * roots[:, None]) @ directions.swapaxes(1, 2)
    loadings = whiten @ moments.cross
    with np.errstate(over="ignore"):  # rows may be close to the largest number
        explained = np.square(loadings).sum(axis=1)
    rest = moments.variance - explained
    # by rounding, factors may explain more than the variance
    more, there = (rest < 0.0) & (explained > 0.0), np.maximum(moments.variance, 0.0)
    share = np.divide(there, explained, out=np.ones_like(rest), where=more)
    return loadings * np.sqrt(share)[:, None], rest


def rotated(moments: Moments, like: Moments) -> Moments:
    """Moments with factors rotated so that their products with columns are close to others."""
    left, _, right = np.linalg.svd(like.cross @ moments.cross.swapaxes(1, 2))
    turn = left @ right
    factors = turn @ moments.factors @ turn.swapaxes(1, 2)
    return Moments(moments.variance, turn @ moments.cross, factors)


def principal(centred: Array, share: Array, q: int) -> Array:
    """Packed moments of rows, with their first q principal components for factors.

    The directions come from subspace iteration, O(n d q). Every factor explains some variance,
    since it could not learn otherwise, and some variance of each column is left to the noise.
    """
    variance = share @ np.square(centred)
    scale = np.sqrt(np.where(variance > 0, variance, 1.0))
    rows = np.sqrt(share)[:, None] * (centred / scale)
    directions = np.random.default_rng(q).standard_normal((rows.shape[1], q))
    for _ in range(ROUNDS):
        directions = np.linalg.qr(rows.T @ (rows @ directions))[0]
    size = np.square(rows @ directions).sum(axis=0)
    d, found = directions.shape
    rest = max(0.0, d - float(size.sum())) / max(1, d - found)
    loadings = np.zeros((q, d))
    loadings[:found] = (directions * np.sqrt(np.maximum(size - rest, LEAST_SHARE))).T
    explained = np.square(loadings).sum(axis=0)
    loadings *= np.sqrt((1.0 - LEAST_SHARE) / np.maximum(explained, 1.0 - LEAST_SHARE))
    moments = Moments(variance[None], (loadings * np.sqrt(variance))[None], np.eye(q)[None])
    return np.asarray(packed(moments)[0])
