"""Logarithms of ratios of gamma functions, without the cancellation of large terms."""

from __future__ import annotations

import numpy as np

from mixfold.core.rows import Array

LARGE = 20.0  # above it the asymptotic series is exact
HALF_LOG_2PI = 0.5 * float(np.log(2.0 * np.pi))


def stirling_remainder(a: Array) -> Array:
    """log Gamma(a) less Stirling's (a - 1/2) log(a) - a + log(2 pi) / 2."""
    from scipy.special import gammaln

    r = 1.0 / np.maximum(a, LARGE)
    s = np.square(r)
    series = r * (1 / 12 - s * (1 / 360 - s * (1 / 1260 - s * (1 / 1680 - s / 1188))))
    small = np.minimum(a, LARGE)
    direct = gammaln(small) - (small - 0.5) * np.log(small) + small - HALF_LOG_2PI
    return np.where(a > LARGE, series, direct)


def log_gamma_ratio(a: Array, more: Array | float) -> Array:
    """log Gamma(a + more) - log Gamma(a) - more log(a), which is near zero where a is large."""
    rest = stirling_remainder(np.asarray(a + more)) - stirling_remainder(a)
    return np.asarray((a + more - 0.5) * np.log1p(more / a) - more + rest)


def log_rising_coefficient(size: Array, x: Array) -> Array:
    """log of Gamma(size + x) / (Gamma(size) x!), for x from zero on."""
    rest = stirling_remainder(size + x) - stirling_remainder(size) - stirling_remainder(x + 1.0)
    # the terms of Stirling's formula, in pairs that cancel before they are added
    terms = (size - 0.5) * np.log1p(x / size) + x * np.log1p((size - 1.0) / (x + 1.0))
    return np.asarray(terms - 0.5 * np.log(x + 1.0) + (1.0 - HALF_LOG_2PI) + rest)
