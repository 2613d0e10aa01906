"""Maximum-likelihood shapes of beta distributions, for many at once."""

from __future__ import annotations

import numpy as np

from mixfold.core.rows import Array
from mixfold.families._gamma_shapes import log_less_digamma

ITERATIONS = 10  # nine give all digits in all of the domain
LONGEST = 2.0  # step in the logarithm of a shape
EULER = 0.5772156649015329


def mean_logs(a: Array, b: Array) -> tuple[Array, Array]:
    """E[log x] and E[log(1 - x)] of Beta(a, b): digamma(a) - digamma(a + b), and the same of b."""
    n = a + b
    gap_a, gap_b, gap_n = log_less_digamma(np.stack([a, b, n]))
    log_a = np.where(a < b, np.log(a / n), np.log1p(-b / n))
    log_b = np.where(a < b, np.log1p(-a / n), np.log(b / n))
    return log_a - (gap_a - gap_n), log_b - (gap_b - gap_n)


def with_total(n: Array, m1: Array, m2: Array) -> tuple[Array, Array]:
    """Approximate solutions of digamma(a) = m1 + digamma(n) and digamma(b) = m2 + digamma(n)."""
    from scipy.special import digamma

    known = digamma(n)
    return inverse_digamma(m1 + known), inverse_digamma(m2 + known)


def inverse_digamma(y: Array) -> Array:
    """Minka's approximation."""
    return np.where(y >= -2.22, np.exp(y) + 0.5, -1.0 / (np.minimum(y, -2.22) + EULER))


def beta_shapes(m1: Array, m2: Array, most: float) -> tuple[Array, Array, np.ndarray]:
    """The shapes a and b with E[log x] = m1 and E[log(1 - x)] = m2, both at most zero.

    The third array is true where a + b would be above `most`, as where all x are equal. The shapes
    there have about that sum. Newton's method is applied to the logarithms of both shapes, with
    steps of bounded length. Where a and b are large, a + b is about 1 / (2 (1 - S)) with
    S = exp(m1) + exp(m2); it begins there. The number of iterations is fixed, so that no shape
    depends on the others.

    References
    ----------
    Minka (2000), Estimating a Dirichlet distribution.
    """
    rest = -np.expm1(np.logaddexp(m1, m2))  # 1 - S; by rounding it can be below zero
    a, b = with_total(np.minimum(0.5 / np.maximum(rest, 0.5 / most), most), m1, m2)
    for _ in range(ITERATIONS):
        a, b = _newton_step(a, b, m1, m2)
        shrink = np.minimum(1.0, 100.0 * most / (a + b))  # beyond it arithmetic is not exact enough
        a, b = shrink * a, shrink * b
    beyond = ~(a + b <= most)
    limit = with_total(np.full_like(m1, most), m1, m2)
    return np.where(beyond, limit[0], a), np.where(beyond, limit[1], b), beyond


def _newton_step(a: Array, b: Array, m1: Array, m2: Array) -> tuple[Array, Array]:
    """A step in log(a) and log(b), shortened to `LONGEST`."""
    from scipy.special import zeta

    found1, found2 = mean_logs(a, b)
    f1, f2 = found1 - m1, found2 - m2
    slope_a, slope_b, slope_n = zeta(2.0, np.stack([a, b, a + b]))  # trigamma functions
    j11, j12 = a * (slope_a - slope_n), -b * slope_n
    j21, j22 = -a * slope_n, b * (slope_b - slope_n)
    determinant = j11 * j22 - j12 * j21
    step1, step2 = (j12 * f2 - j22 * f1) / determinant, (j21 * f1 - j11 * f2) / determinant
    size = np.maximum(np.abs(step1), np.abs(step2))
    length = LONGEST / np.maximum(size, LONGEST)
    return a * np.exp(length * step1), b * np.exp(length * step2)
