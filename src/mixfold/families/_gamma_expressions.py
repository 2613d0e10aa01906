"""Functions of the gamma function, which ONNX does not have, as expressions."""

from __future__ import annotations

import numpy as np

from mixfold.core.expression import Expression
from mixfold.core.rows import Array
from mixfold.families._gamma_ratios import HALF_LOG_2PI, LARGE, stirling_remainder

SHIFT = 10  # Stirling's series is used from here on, where it has twelve digits
SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)


def _series(a: Expression) -> Expression:
    """The remainder of Stirling's formula at large numbers."""
    r = 1.0 / a
    s = r.square()
    found = s * SERIES[-1]
    for coefficient in SERIES[-2:0:-1]:
        found = (found + coefficient) * s
    return (found + SERIES[0]) * r


def log_gamma(a: Expression) -> Expression:
    """log Gamma(a) for a > 0: Stirling's series at a + 10, less log(a (a + 1) ... (a + 9)).

    From 10 on nothing is added to a.
    """
    small = a.below(float(SHIFT))
    inside = small.choose(a, 1.0)
    product = inside
    for i in range(1, SHIFT):
        product = product * (inside + float(i))
    z = small.choose(a + float(SHIFT), a)
    found = (z - 0.5) * z.log() - z + (_series(z) + HALF_LOG_2PI)
    return found - small.choose(product.log(), 0.0)


def log1p(x: Expression) -> Expression:
    """log(1 + x), with all digits where x is small (Kahan)."""
    whole = 1.0 + x
    return whole.equals(1.0).choose(x, whole.log() * x / (whole - 1.0))


def remainder(a: Expression) -> Expression:
    """log Gamma(a) less Stirling's formula, as `stirling_remainder` computes it."""
    inside = a.at_most(LARGE)
    direct = log_gamma(inside) - ((inside - 0.5) * inside.log() - inside + HALF_LOG_2PI)
    return a.below(LARGE).choose(direct, _series(a.at_least(LARGE)))


def log_rising_coefficient(size: Array | float, x: Expression) -> Expression:
    """log of Gamma(size + x) / (Gamma(size) x!), as the function of this name for arrays."""
    size = np.asarray(size, dtype=np.float64)
    rest = remainder(size + x) - stirling_remainder(size) - remainder(x + 1.0)
    terms = (size - 0.5) * log1p(x / size) + x * log1p((size - 1.0) / (x + 1.0))
    return terms - 0.5 * (x + 1.0).log() + (1.0 - HALF_LOG_2PI) + rest
