"""Maximum-likelihood concentrations of Dirichlet distributions, for many at once."""

from __future__ import annotations

import numpy as np

from mixfold.core.rows import Array
from mixfold.families._beta_shapes import inverse_digamma
from mixfold.families._gamma_shapes import log_less_digamma, shape_slope

ITERATIONS = 11  # ten give all digits in all of the domain
LONGEST = 2.0  # step in the logarithm of a concentration


def mean_logs(alphas: Array) -> Array:
    """E[log x_j] of Dirichlet distributions (K, d): digamma(alpha_j) - digamma(sum of alphas)."""
    total = alphas.sum(axis=1, keepdims=True)
    log_shares = np.log(alphas / total)
    # the largest share may be so close to 1 that its logarithm is that of all others
    largest, others = alphas.argmax(axis=1)[:, None], alphas.copy()
    np.put_along_axis(others, largest, 0.0, axis=1)
    rest = others.sum(axis=1, keepdims=True) / total
    np.put_along_axis(log_shares, largest, np.log1p(-rest), axis=1)
    return np.asarray(log_shares - (log_less_digamma(alphas) - log_less_digamma(total)))


def with_total(total: Array, means: Array) -> Array:
    """Approximate solutions of digamma(alpha_j) = means_j + digamma(total), (K, d)."""
    from scipy.special import digamma

    return inverse_digamma(means + digamma(total)[:, None])


def dirichlet_concentrations(means: Array, most: float) -> tuple[Array, np.ndarray]:
    """The concentrations with E[log x_j] = means_j, all at most zero, (K, d).

    The second array (K,) is true where their sum would be above `most`, as where all rows are
    equal. The sum is about `most` there. Newton's method is applied to the logarithms of the
    concentrations, with steps of bounded length. Where they are large, their sum is about
    (d - 1) / (2 (1 - S)) with S = sum of exp(means_j); it begins there. The number of iterations is
    fixed, so that no component depends on the others.

    References
    ----------
    Minka (2000), Estimating a Dirichlet distribution.
    """
    half = 0.5 * (means.shape[1] - 1.0)
    rest = -np.expm1(np.logaddexp.reduce(means, axis=1))  # by rounding it can be below zero
    alphas = with_total(np.minimum(half / np.maximum(rest, half / most), most), means)
    for _ in range(ITERATIONS):
        alphas = _newton_step(alphas, means)
        # beyond it arithmetic is not exact enough
        alphas = alphas * np.minimum(1.0, 100.0 * most / alphas.sum(axis=1, keepdims=True))
    beyond = ~(alphas.sum(axis=1) <= most)
    limit = with_total(np.full(len(means), most), means)
    return np.where(beyond[:, None], limit, alphas), beyond


def _newton_step(alphas: Array, means: Array) -> Array:
    """A step in the logarithms of the concentrations, shortened to `LONGEST`.

    The matrix of derivatives is diagonal, with the trigamma functions q_j of the concentrations,
    less the trigamma function of their sum everywhere; it is inverted by the formula of Sherman and
    Morrison. The difference of 1 / trigamma(sum) and the sum of all 1 / q_j would cancel where
    concentrations are large, so it is taken of their excess over the concentrations.
    """
    total = alphas.sum(axis=1, keepdims=True)
    gap, gap_of_total = shape_slope(alphas), shape_slope(total)
    inverse = 1.0 / (1.0 - gap)  # 1 / (q_j alpha_j)
    common = gap_of_total / (1.0 - gap_of_total) * total
    common = common - (gap * inverse * alphas).sum(axis=1, keepdims=True)
    lack = means - mean_logs(alphas)
    shift = (lack * inverse * alphas).sum(axis=1, keepdims=True) / common
    step = inverse * (lack + shift)
    length = LONGEST / np.maximum(np.abs(step).max(axis=1, keepdims=True), LONGEST)
    return np.asarray(alphas * np.exp(length * step))
