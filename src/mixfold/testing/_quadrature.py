"""Points and weights by which a function of one column is integrated or summed."""

from __future__ import annotations

from math import inf, pi

import numpy as np

from mixfold.core.family import Family
from mixfold.core.rows import Array
from mixfold.core.support import Support

LARGEST, STEP = 4.0, 0.05  # of the double exponential rule
DEVIATIONS = 40.0  # within which whole numbers are summed


def row_quadrature(family: Family, rows: Array) -> tuple[Array, Array]:
    """Rows in the support and their weights; `rows` tell where values mostly lie.

    Where the values of a row depend on one another, the grid is one of its free coordinates.
    """
    d = rows.shape[1]
    chart = family.chart(d)
    supports = family.supports(d) if chart is None else chart.supports
    free = rows if chart is None else chart.from_rows(rows)
    pairs = zip(supports, free.T, strict=True)
    columns = [quadrature(support, column, family.corner) for support, column in pairs]
    points = np.stack([one.ravel() for one in np.meshgrid(*(c[0] for c in columns))], axis=1)
    weights = np.prod([one.ravel() for one in np.meshgrid(*(c[1] for c in columns))], axis=0)
    if chart is None:
        return points, weights
    points, volumes = chart.to_rows(points)
    return points, weights * volumes


def quadrature(support: Support, sample: Array, corner: float | None = None) -> tuple[Array, Array]:
    """Points in the support and their weights; `sample` tells where its values mostly lie.

    The rule is exact for smooth functions only, so both sides of a corner are integrated apart.
    """
    if corner is not None:
        sides = support._replace(high=corner), support._replace(low=corner)
        left, right = (quadrature(side, sample) for side in sides)
        return np.concatenate([left[0], right[0]]), np.concatenate([left[1], right[1]])
    center, spread = float(sample.mean()), float(sample.std()) + 1e-3
    if support.whole:
        reach = DEVIATIONS * (spread + 1.0)
        low = max(support.low, np.floor(center - reach))
        points = np.arange(low, min(support.high, np.ceil(center + reach)) + 1.0)
        return points, np.ones_like(points)
    return double_exponential(support, center, spread)


def double_exponential(support: Support, center: float, spread: float) -> tuple[Array, Array]:
    """Points dense where a density varies, also at an end where it has no finite value.

    References
    ----------
    Takahasi and Mori (1974), Double exponential formulas for numerical integration.
    """
    t = np.arange(-LARGEST, LARGEST + STEP / 2, STEP)
    u, slope = 0.5 * pi * np.sinh(t), STEP * 0.5 * pi * np.cosh(t)
    if support == Support():
        return center + spread * np.sinh(u), spread * np.cosh(u) * slope
    if support.high == inf:
        return support.low + spread * np.exp(u), spread * np.exp(u) * slope
    if support.low == -inf:
        return support.high - spread * np.exp(u), spread * np.exp(u) * slope
    width = support.high - support.low
    return support.low + width / (1.0 + np.exp(-2.0 * u)), 0.5 * width * slope / np.square(
        np.cosh(u)
    )
