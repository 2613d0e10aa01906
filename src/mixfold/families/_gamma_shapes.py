"""Maximum-likelihood shapes of gamma distributions: log(a) - digamma(a) = gap, for many at once."""

from __future__ import annotations

import numpy as np

from mixfold.core.rows import Array

LARGE = 20.0  # above it the asymptotic series are exact
ITERATIONS = 4  # three give all digits in all of the domain


def log_less_digamma(shape: Array) -> Array:
    """log(a) - digamma(a), without the cancellation of the two where a is large."""
    from scipy.special import digamma

    r = 1.0 / np.maximum(shape, LARGE)
    s = np.square(r)
    even = 1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s / 132)))
    small = np.minimum(shape, LARGE)
    return np.where(shape > LARGE, 0.5 * r + s * even, np.log(small) - digamma(small))


def trigamma_gap(shape: Array) -> Array:
    """1 - a trigamma(a): a times the derivative of log(a) - digamma(a)."""
    from scipy.special import zeta

    r = 1.0 / np.maximum(shape, LARGE)
    s = np.square(r)
    odd = 1 / 6 - s * (1 / 30 - s * (1 / 42 - s * (1 / 30 - s * 5 / 66)))
    small = np.minimum(shape, LARGE)
    return np.where(shape > LARGE, -0.5 * r - s * odd, 1.0 - small * zeta(2.0, small))


def gamma_shapes(gap: Array) -> Array:
    """The shapes a with log(a) - digamma(a) = gap, for gaps above zero.

    The left side is between 1/(2a) and 1/a, so its logarithm is close to linear in log(a): Newton's
    method in these coordinates converges quadratically from Minka's approximation, everywhere.
    The number of iterations is fixed, so that no shape depends on the others.

    References
    ----------
    Minka (2002), Estimating a gamma distribution.
    """
    shape = (3.0 - gap + np.sqrt(np.square(gap - 3.0) + 24.0 * gap)) / (12.0 * gap)
    for _ in range(ITERATIONS):
        found = log_less_digamma(shape)
        shape = shape * np.exp(found / trigamma_gap(shape) * np.log(gap / found))
    return np.asarray(shape)
