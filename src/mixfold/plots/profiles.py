"""Means of components in many columns, as parallel lines."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.core.capabilities import StandardDeviations
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.plots.axes import axes_for
from mixfold.plots.colours import ROWS, colour_of, draw_legend, line_of, line_widths
from mixfold.plots.fitted_mixture import LEVELS, FittedMixture
from mixfold.plots.ranges import shortened

MOST_NAMES = 40  # of columns below the axis
MOST_ROWS = 200  # grey lines
MOST_BANDS = 4  # components whose standard deviations are shown
SIDE = 0.3  # beside the first and the last column
FEW_COLUMNS = 8  # whose names stand upright


def draw_profiles(fitted: FittedMixture, ax: Any = None) -> Any:
    """Draw a line of means for each component, over all columns side by side.

    Means are in standard deviations of the column from its mean, in all rows or, without rows, in
    the mixture. Thin grey lines are rows, and bands are one standard deviation of a component.

    Returns
    -------
    The Axes.
    """
    means, chosen = component_means(fitted)
    centre, scale = _of_all(fitted, means, chosen)
    axes, place = axes_for(ax), np.arange(len(chosen))
    _draw_rows(axes, (fitted.rows[fitted.some_rows(MOST_ROWS)][:, chosen] - centre) / scale)
    widths, bands = line_widths(fitted.weights), _deviations(fitted)
    y = (means - centre) / scale
    for k in range(fitted.k):
        line = {"color": colour_of(k), "linestyle": line_of(k), "linewidth": widths[k]}
        marker = "o" if len(chosen) <= MOST_NAMES else ""
        axes.plot(place, y[k], marker=marker, markersize=3, label=str(k), **line)
        if bands is not None and fitted.k <= MOST_BANDS:
            around = bands[k, chosen] / scale
            band = {"color": colour_of(k), "alpha": 0.12, "linewidth": 0}
            axes.fill_between(place, y[k] - around, y[k] + around, **band)
    _limit(axes, y, (fitted.rows[:, chosen] - centre) / scale)
    _name_columns(axes, [fitted.columns[j].name for j in chosen])
    axes.set_ylabel("standard deviations from the mean")
    draw_legend(axes, fitted.weights, fitted.noise)
    return axes


def component_means(fitted: FittedMixture) -> tuple[Array, list[int]]:
    """Means (K, c) of the columns that have some, and the numbers of these columns.

    Where a family has no means, they are its first parameter of a number per column.
    """
    shape = fitted.k, fitted.d
    shown = fitted.model.family.attributes(fitted.params.components)
    found: list[Any] = [shown.get("means"), shown.get("probabilities"), *shown.values()]
    means = next((np.asarray(one) for one in found if np.shape(one) == shape), None)
    if means is None:
        raise InvalidInputError(
            f"{fitted.family!r} has no means of columns to draw profiles of: choose another kind"
        )
    numbers = np.isfinite(means).all(axis=0) & np.array([kind != LEVELS for kind in fitted.kinds])
    if not numbers.any():  # yes and no in all columns: the means are probabilities
        numbers = np.isfinite(means).all(axis=0)
    if not numbers.any():
        raise InvalidInputError(
            "no column has finite means in all components: draw kind='columns' instead"
        )
    chosen = [int(j) for j in np.flatnonzero(numbers)]
    return means[:, chosen], chosen


def _deviations(fitted: FittedMixture) -> Array | None:
    family = fitted.family
    if isinstance(family, StandardDeviations):
        return family.standard_deviations(fitted.params.components)
    return None


def _of_all(fitted: FittedMixture, means: Array, chosen: list[int]) -> tuple[Array, Array]:
    """Mean and standard deviation of the columns, in the rows or in the mixture; 1 for constants.

    The mixture's deviations lack those within components that have none.
    """
    if len(fitted.rows):
        rows = fitted.rows[:, chosen]
        there = ~np.isnan(rows)
        n = np.maximum(there.sum(axis=0), 1)
        centre = np.where(there, rows, 0.0).sum(axis=0) / n
        variance = np.where(there, np.square(rows - centre), 0.0).sum(axis=0) / n
    else:
        proportion = fitted.weights / fitted.weights.sum()
        centre = proportion @ means
        variance = proportion @ np.square(means - centre)
        within = _deviations(fitted)
        if within is not None:
            variance = variance + proportion @ np.square(within[:, chosen])
    usable = np.isfinite(variance) & (variance > 0.0)
    return centre, np.sqrt(np.where(usable, variance, 1.0))


def _limit(axes: Any, means: Array, rows: Array) -> None:
    """Limit the axis to the means, a standard deviation more, and nearly all cells of rows."""
    cells = rows[~np.isnan(rows)]
    ends = np.quantile(cells, [0.01, 0.99]) if len(cells) else np.zeros(2)
    axes.set_ylim(min(means.min() - 1.0, ends[0]), max(means.max() + 1.0, ends[1]))


def _draw_rows(axes: Any, rows: Array) -> None:
    from matplotlib.collections import LineCollection

    place = np.arange(rows.shape[1], dtype=np.float64)
    lines = [np.column_stack([place, row]) for row in rows]
    axes.add_collection(LineCollection(lines, colors=ROWS, linewidths=0.4, zorder=0))


def _name_columns(axes: Any, names: list[str]) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlim(-SIDE, len(names) - 1.0 + SIDE)
    if len(names) > MOST_NAMES:
        axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
        axes.set_xlabel("number of the column")
        return
    upright = len(names) <= FEW_COLUMNS and max(map(len, names)) <= 8
    turned: dict[str, Any] = {} if upright else {"rotation": 45, "ha": "right"}
    if len(names) > 20:
        turned = {"rotation": 90}
    shown = [shortened(name, 18) for name in names]
    axes.set_xticks(np.arange(len(names)), shown, fontsize="small", parse_math=False, **turned)
    axes.grid(axis="x", color="#EEEEEE")
    axes.set_axisbelow(True)
