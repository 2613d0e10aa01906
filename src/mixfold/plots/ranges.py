"""Which values of a column a picture shows."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.core.rows import Array
from mixfold.plots.fitted_mixture import NUMBERS, FittedMixture, Marginal

GRID, DENSE = 512, 100  # points of a curve: of all of it, and around each component
BINS = 60
MARGIN = 0.04
TAIL = 0.01  # fraction of rows and of draws beyond which values may be left out
ABOVE = 2.5  # heights of bars, above which peaks are cut
STEPS = (1, 2, 2.5, 5, 10)  # between ticks
SMALLEST = 1e-9  # part of the range


def shown_range(fitted: FittedMixture, column: int, marginal: Marginal) -> tuple[float, float]:
    """The least and the largest value that is shown of a column.

    Values far beyond the others are left out.
    """
    if fitted.has_angles(column):
        return -np.pi, np.pi
    draws, rows = marginal.draws[:, :, 0].ravel(), fitted.observed(column)
    ends = [_bulk(draws, 0.0 if len(rows) else 0.2)]
    if len(rows):
        ends.append(_bulk(rows, 0.3))
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    support = fitted.family.supports(fitted.d)[column]
    if support.whole:
        return max(np.floor(low), support.low), min(np.ceil(high), support.high)
    width = high - low
    if width <= SMALLEST * max(abs(low), abs(high)):
        width = max(abs(low), 1.0)
    return max(low - MARGIN * width, support.low), min(high + MARGIN * width, support.high)


def _bulk(values: Array, more: float) -> tuple[float, float]:
    """From where to where most values are, and all others that are not far from them."""
    values = values[np.isfinite(values)]
    low, high = np.quantile(values, [TAIL, 1.0 - TAIL])
    width = more * (high - low)
    return max(float(values.min()), low - width), min(float(values.max()), high + width)


def curve_points(low: float, high: float, marginal: Marginal) -> Array:
    """Points from `low` to `high` at which a density is computed; more where one is narrow."""
    inside = SMALLEST * (high - low)
    low, high = low + inside, high - inside
    parts = [np.linspace(low, high, GRID)]
    for drawn in np.sort(marginal.draws[:, :, 0], axis=1):
        around = drawn[-1] - drawn[0]
        parts += [drawn, np.linspace(drawn[0] - around, drawn[-1] + around, DENSE)]
    points = np.unique(np.concatenate(parts))
    return points[(points >= low) & (points <= high)]


def highest_shown(x: Array, total: Array) -> float:
    """The height of the axis for a curve, whose narrow peaks are cut.

    They are cut at a multiple of the highest of the bars that a histogram would have.
    """
    area = np.concatenate([[0.0], np.cumsum(np.diff(x) * 0.5 * (total[1:] + total[:-1]))])
    edges = np.linspace(x[0], x[-1], BINS + 1)
    bars = np.diff(np.interp(edges, x, area)) / (edges[1] - edges[0])
    return float(1.05 * min(total.max(), ABOVE * bars.max()))


def label_axis(axis: Any, fitted: FittedMixture, column: int, named: bool = True) -> None:
    """Give an axis the name of a column and, if it has dates or times, suitable ticks."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    own = fitted.columns[column]
    name = own.name
    if own.date_type.startswith(("date", "timestamp")):
        locator: Any = AutoDateLocator(minticks=2, maxticks=5)  # type: ignore[no-untyped-call]
        axis.set_major_locator(locator)
        axis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    elif own.date_type.startswith("time"):
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2.5, 5]))
        axis.set_major_formatter(FuncFormatter(_hours))
    else:
        axis.set_major_locator(MaxNLocator(5, integer=fitted.kinds[column] != NUMBERS, steps=STEPS))
        name = f"{name} (days)" if own.date_type else name
    axis.set_label_text(shortened(name, 28) if named else "", parse_math=False)


def _hours(days: float, _: Any) -> str:
    minutes = round(days * 24.0 * 60.0)
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def shortened(name: object, most: int) -> str:
    """A name as text of at most so many letters."""
    text = str(name)
    return text if len(text) <= most else f"{text[: most - 1]}…"
