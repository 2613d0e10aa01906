"""Modified Bessel functions of von Mises-Fisher distributions, in any dimension."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import log, pi

import numpy as np
from numpy.polynomial import polynomial
from numpy.typing import NDArray

from mixfold.core.rows import Array

LARGE = 30.0  # from here on the expansion is exact
TERMS = 17  # of the expansion
CANCELLING = 1000.0  # from here on slopes are approximated
ITERATIONS = 5  # four give all digits in all of the domain


@cache
def _coefficients() -> NDArray[np.float64]:
    """Polynomials V_k of p^2 with U_k(p) = p^k V_k(p^2), for Debye's polynomials U_k.

    They follow from U_0 = 1 and U_{k+1} = (p^2 - p^4) U_k' / 2 + integral of (1 - 5 t^2) U_k / 8;
    the coefficient of p^(k + 2j) is in row k, column j.
    """
    table = np.zeros((TERMS, TERMS))
    row = [Fraction(1)]
    for k in range(TERMS):
        table[k, : len(row)] = [float(c) for c in row]
        after = [Fraction(0)] * (len(row) + 1)
        for j, c in enumerate(row):
            power = k + 2 * j
            after[j] += c * (Fraction(power, 2) + Fraction(1, 8 * (power + 1)))
            after[j + 1] -= c * (Fraction(power, 2) + Fraction(5, 8 * (power + 3)))
        row = after
    return table


def _expansion(order: float, kappa: Array) -> tuple[Array, Array]:
    """log(I_v(kappa) / kappa^v), and I_{v+1}(kappa) / (kappa I_v(kappa)), by Debye's expansion.

    It is one in powers of 1 / length, where length = sqrt(v^2 + kappa^2) is large.
    """
    length = np.hypot(order, kappa)
    s, square = 1.0 / length, np.square(order / length)
    table = _coefficients()
    values = polynomial.polyval(square, table.T)  # (TERMS, K)
    slopes = polynomial.polyval(square, polynomial.polyder(table.T))
    powers = s ** np.arange(TERMS)[:, None]
    total = (powers * values).sum(axis=0)
    fall = (powers * (np.arange(TERMS)[:, None] * values + 2.0 * square * slopes)).sum(axis=0)
    logs = length - order * np.log(order + length) - 0.5 * np.log(2.0 * pi * length)
    ratios = 1.0 / (length + order) - np.square(s) * (0.5 + fall / total)
    return logs + np.log(total), ratios


def bessel_terms(order: float, kappa: Array) -> tuple[Array, Array]:
    """log(I_v(kappa) / kappa^v) and I_{v+1}(kappa) / (kappa I_v(kappa)), for kappa >= 0, (K,).

    Neither under- nor overflows. Where order and kappa are small, both follow from those of the
    order that is higher by `LARGE`, by the continued fraction of Gauss.
    """
    far, near = np.hypot(order, kappa) > LARGE, np.minimum(kappa, LARGE)
    if far.all():
        return _expansion(order, kappa)
    logs, ratios = _expansion(order + LARGE, near)
    product, square = np.ones_like(kappa), np.square(near)
    for v in np.arange(order + LARGE, order + 0.5, -1.0):
        denominators = 2.0 * v + square * ratios
        product, ratios = product * denominators, 1.0 / denominators
    logs = logs + np.log(product)
    direct = _expansion(order, np.where(far, kappa, LARGE))
    return np.where(far, direct[0], logs), np.where(far, direct[1], ratios)


def log_normalizers(d: int, kappa: Array) -> Array:
    """log of the integral of exp(kappa x_1) over the unit sphere in d dimensions."""
    return np.asarray(bessel_terms(0.5 * d - 1.0, kappa)[0] + 0.5 * d * log(2.0 * pi))


def resultant_lengths(d: int, kappa: Array) -> Array:
    """The length of the mean of unit vectors, I_{d/2}(kappa) / I_{d/2-1}(kappa)."""
    return np.asarray(kappa * bessel_terms(0.5 * d - 1.0, kappa)[1])


def _slopes(d: int, kappa: Array, lengths: Array) -> Array:
    """The derivative of the resultant lengths R: 1 - R^2 - (d - 1) R / kappa.

    These terms cancel where kappa is large; the first terms of the expansion are used there.
    """
    order = 0.5 * d - 1.0
    far, length = np.hypot(order, kappa) > CANCELLING, np.hypot(order, np.maximum(kappa, 1.0))
    series = order / (length * (length + order))
    series = series + (np.square(kappa / length) - np.square(order / length)) / (
        2.0 * np.square(length)
    )
    return np.where(far, series, 1.0 - np.square(lengths) - (d - 1.0) * lengths / kappa)


def concentrations(d: int, lengths: Array) -> Array:
    """The concentrations of vectors in d dimensions with these resultant lengths, in (0, 1).

    Newton's method, from the approximation of Banerjee et al. The number of iterations is fixed, so
    that no concentration depends on the others.

    References
    ----------
    Sra (2012), A short note on parameter approximation for von Mises-Fisher distributions.
    """
    squares = np.square(lengths)
    kappa = lengths * (d - squares) / ((1.0 - lengths) * (1.0 + lengths))
    for _ in range(ITERATIONS):
        found = resultant_lengths(d, kappa)
        kappa = kappa - (found - lengths) / _slopes(d, kappa, found)
    return np.asarray(kappa)
