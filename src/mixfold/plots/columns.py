"""One panel for each column: densities of numbers, bars of counts and of levels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, sqrt
from typing import Any

import numpy as np

from mixfold.core.rows import Array
from mixfold.models.noise_mixture import NoiseMixture
from mixfold.plots.axes import axes_for, panels_for
from mixfold.plots.colours import (
    ALL,
    NOISE,
    ROWS,
    THIN,
    colour_of,
    draw_legend,
    line_of,
    line_widths,
)
from mixfold.plots.fitted_mixture import COUNTS, LEVELS, FittedMixture, Marginal
from mixfold.plots.ranges import (
    BINS,
    curve_points,
    highest_shown,
    label_axis,
    shortened,
    shown_range,
)

MOST_PANELS = 24
FEWEST_BINS = 8
PANEL, FOR_LEGEND = (2.6, 2.2), 1.1  # inches
MOST_ACROSS = 4
MOST_BARS = 48
MOST_LEVELS = 20
MOST_COUNTS = 400
MOST_MARKS = 400  # rows below a density


def draw_columns(fitted: FittedMixture, ax: Any = None) -> Any:
    """Draw a panel for each column; of many columns, those in which components differ most.

    Curves are the densities of the components, times their weights, and of the mixture (black).
    Counts have bars with the same heights. Levels have the probability within each component. Grey
    areas are the rows.

    Returns
    -------
    An array of Axes, one for each column; for a single column the Axes.
    """
    chosen = _most_different(fitted, MOST_PANELS)
    if len(chosen) == 1:
        axes = axes_for(ax)
        _draw_column(axes, fitted, chosen[0])
        draw_legend(axes, fitted.weights, fitted.noise)
        return axes
    across = min(MOST_ACROSS, ceil(sqrt(len(chosen))))
    grid = isinstance(ax, np.ndarray | list | tuple)
    down = ceil(len(chosen) / across)
    size = PANEL[0] + FOR_LEGEND / across, PANEL[1]
    panels = panels_for(ax, *((1, len(chosen)) if grid else (down, across)), size).ravel()
    for axes, column in zip(panels, chosen, strict=False):
        _draw_column(axes, fitted, column)
        axes.tick_params(labelsize="small")
    for axes in panels[len(chosen) :]:
        axes.set_axis_off()
    empty = panels[-1] if len(panels) > len(chosen) else None
    last_in_row = panels[min(across, len(chosen)) - 1]  # the last panel of the first row
    draw_legend(last_in_row, fitted.weights, fitted.noise, empty)
    return panels[: len(chosen)]


def _draw_column(axes: Any, fitted: FittedMixture, column: int) -> None:
    kind, marginal = fitted.kinds[column], fitted.marginal(column)
    if kind == LEVELS:
        _draw_levels(axes, fitted, column, marginal)
    elif kind == COUNTS:
        _draw_counts(axes, fitted, column, marginal)
    else:
        draw_density(axes, fitted, column, marginal)


def _most_different(fitted: FittedMixture, most: int) -> list[int]:
    """The columns that tell most about the component of a row, if there are more than `most`."""
    if fitted.d <= most:
        return list(range(fitted.d))
    found = np.array([information(fitted.marginal(j), fitted.weights) for j in range(fitted.d)])
    return sorted(int(j) for j in np.argsort(-found, kind="stable")[:most])


def information(marginal: Marginal, weights: Array) -> float:
    """The mutual information of a column and the component, in nats, estimated from draws."""
    k, n, _ = marginal.draws.shape
    proportion = weights / weights.sum()
    p = marginal.densities(marginal.draws.reshape(k * n, -1)).reshape(k, n, k)
    own = p[np.arange(k), :, np.arange(k)]
    with np.errstate(divide="ignore", invalid="ignore"):
        gained = np.log(own) - np.log(p @ proportion)
    return float(proportion @ np.nan_to_num(gained).mean(axis=1))


# numbers


def draw_density(axes: Any, fitted: FittedMixture, column: int, marginal: Marginal) -> None:
    """Draw the density of a column of numbers, with those of the components and a rug of rows."""
    low, high = shown_range(fitted, column, marginal)
    x = curve_points(low, high, marginal)
    parts = fitted.weights * np.nan_to_num(marginal.densities(x[:, None]))
    total = parts.sum(axis=1)
    noise = _noise_density(fitted, column, x)
    if noise is not None:
        axes.plot(x, noise, color=NOISE, linewidth=THIN, label="noise")
        total = total + noise
    rows = fitted.observed(column)
    bars = _draw_histogram(axes, rows, np.linspace(low, high, _n_bins(len(rows)) + 1))
    widths = line_widths(fitted.weights)
    for k in range(fitted.k):
        line = {"color": colour_of(k), "linestyle": line_of(k), "linewidth": widths[k]}
        axes.plot(x, parts[:, k], label=str(k), **line)
    if fitted.k > 1 or noise is not None:
        axes.plot(x, total, color=ALL, linewidth=THIN, label="all")
    _draw_rug(axes, fitted, column)
    axes.set_xlim(low, high)
    axes.set_ylim(0.0, max(highest_shown(x, total), 1.05 * bars))
    label_axis(axes.xaxis, fitted, column)
    axes.set_ylabel("density")


def _noise_density(fitted: FittedMixture, column: int, x: Array) -> Array | None:
    if not isinstance(fitted.model, NoiseMixture) or fitted.noise is None:
        return None
    box = fitted.model.box
    inside = (x >= box.low[column]) & (x <= box.high[column])
    return np.asarray(fitted.noise * inside / box.lengths[column])


def _n_bins(n: int) -> int:
    """The number of bins for n rows, by the rule of Rice."""
    return int(np.clip(ceil(2.0 * n ** (1 / 3)), FEWEST_BINS, BINS))


def _draw_histogram(axes: Any, rows: Array, edges: Array) -> float:
    """Draw the fraction of the rows in each bin, divided by its width; returns the largest."""
    if not len(rows):
        return 0.0
    heights = np.histogram(rows, edges)[0] / (len(rows) * np.diff(edges))
    axes.stairs(heights, edges, fill=True, color=ROWS, zorder=0)
    return float(heights.max())


def _draw_rug(axes: Any, fitted: FittedMixture, column: int) -> None:
    """Draw a mark for some of the rows in the colour of their component."""
    if fitted.labels is None:
        return
    some = fitted.some_rows(MOST_MARKS)
    x, labels = fitted.rows[some, column], fitted.labels[some]
    for k in np.unique(labels):
        own = x[labels == k]
        height = np.full(len(own), 0.02)
        mark = {"marker": "|", "markersize": 7, "linestyle": "none", "alpha": 0.7}
        axes.plot(own, height, color=colour_of(k), transform=axes.get_xaxis_transform(), **mark)


# counts


def _draw_counts(axes: Any, fitted: FittedMixture, column: int, marginal: Marginal) -> None:
    """Draw bars of the probabilities of counts, times the weights of the components."""
    low, high = shown_range(fitted, column, marginal)
    step = max(1.0, ceil((high - low + 1.0) / MOST_COUNTS))
    counts = np.arange(low, high + 1.0, step)
    parts = fitted.weights * marginal.densities(counts[:, None])
    edges = np.append(counts, counts[-1] + step) - 0.5 * step
    _draw_histogram(axes, fitted.observed(column), edges)
    widths = line_widths(fitted.weights)
    for k in range(fitted.k):
        bars = {"color": colour_of(k), "linestyle": line_of(k), "linewidth": widths[k]}
        axes.stairs(parts[:, k], edges, label=str(k), **bars)
    if fitted.k > 1:
        axes.plot(counts, parts.sum(axis=1), ".", color=ALL, markersize=3, label="all")
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(bottom=0.0)
    label_axis(axes.xaxis, fitted, column)
    axes.set_ylabel("probability")


# levels


def _draw_levels(axes: Any, fitted: FittedMixture, column: int, marginal: Marginal) -> None:
    """Draw the probability of every level in every component: bars, or a table of colours."""
    names = level_names(fitted, column)
    p = marginal.densities(np.arange(float(len(names)))[:, None])
    shown: np.ndarray = np.arange(len(names))
    if len(names) > MOST_LEVELS:
        shown = np.sort(np.argsort(-(p @ fitted.weights), kind="stable")[:MOST_LEVELS])
    label = shortened(fitted.columns[column].name, 28)
    if len(shown) < len(names):
        label = f"{label}: {len(shown)} of {len(names)} levels"
    if len(shown) * fitted.k <= MOST_BARS:
        _draw_bars(axes, fitted, column, p, shown)
    else:
        _draw_heat_map(axes, p[shown])
    steep = _are_crowded([names[i] for i in shown])
    axes.set_xticks(
        np.arange(len(shown)),
        [names[i] for i in shown],
        rotation=90 if len(shown) > 8 else 30 if steep else 0,
        ha="right" if steep and len(shown) <= 8 else "center",
        fontsize="small",
        parse_math=False,
    )
    axes.set_xlabel(label, parse_math=False)


def _are_crowded(names: Sequence[str]) -> bool:
    """Whether names side by side below a panel would touch, which has room for 32 characters."""
    pairs = (len(a) + len(b) for a, b in pairwise(names))
    return sum(map(len, names)) > 24 or max(pairs, default=0) / 2 + 1 > 32 / len(names)


def level_names(fitted: FittedMixture, column: int) -> list[str]:
    """The names of the levels of a column, in the order of their codes."""
    number = int(fitted.family.supports(fitted.d)[column].high) + 1
    known = fitted.columns[column].levels or ()
    words = {True: "yes", False: "no"}
    found = [words[name] if isinstance(name, bool) else str(name) for name in known]
    if known and number > len(found):
        found.append("other")
    found += [str(i) for i in range(len(found), number)]
    return [shortened(name, 14) for name in found]


def _draw_bars(axes: Any, fitted: FittedMixture, column: int, p: Array, shown: np.ndarray) -> None:
    rows = fitted.observed(column)
    if len(rows):
        proportions = np.bincount(rows.astype(np.intp), minlength=len(p))[shown] / len(rows)
        axes.bar(np.arange(len(shown)), proportions, 0.96, color=ROWS, zorder=0, label="rows")
    width = 0.8 / fitted.k
    for k in range(fitted.k):
        place = np.arange(len(shown)) + (k - 0.5 * (fitted.k - 1)) * width
        axes.bar(place, p[shown, k], 0.92 * width, color=colour_of(k), label=str(k))
    axes.set_ylim(0.0, 1.0)
    axes.set_ylabel("probability")


def _draw_heat_map(axes: Any, p: Array) -> None:
    from matplotlib.ticker import MaxNLocator

    image = axes.imshow(p.T, cmap="Greys", vmin=0.0, aspect="auto", interpolation="none")
    bar = axes.figure.colorbar(image, ax=axes, pad=0.02)
    bar.ax.tick_params(labelsize="x-small")
    bar.ax.set_title("prob.", fontsize="x-small")
    axes.yaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.set_ylabel("component")
