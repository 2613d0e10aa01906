"""Colours, lines and legends of components, the same in every picture.

The colours are those of Okabe and Ito that are dark enough for lines on white, and a dark red: they
differ for people who do not tell red from green too. After seven components the colours are used
again, with other lines and markers.

Reference: Okabe and Ito (2008), Color universal design.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mixfold.core.rows import Array

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255")
LINES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))
MARKERS = ("o", "^", "s", "D", "v")
NOISE, ROWS, ALL = "#777777", "#DDDDDD", "#000000"
THIN, THICK = 0.8, 2.0  # widths of lines, in points
MOST_NAMED = 40  # components in a legend
ONE_COLUMN = 12


def colour_of(component: int) -> str:
    """The colour of a component; -1 is noise."""
    return NOISE if component < 0 else COLOURS[component % len(COLOURS)]


def line_of(component: int) -> Any:
    """The style of a component's lines."""
    return LINES[component // len(COLOURS) % len(LINES)]


def marker_of(component: int) -> str:
    """The marker of a component's rows."""
    return "o" if component < 0 else MARKERS[component // len(COLOURS) % len(MARKERS)]


def line_widths(weights: Array) -> Array:
    """Widths of lines, which grow with the weights of the components."""
    return np.asarray(THIN + (THICK - THIN) * np.sqrt(weights / max(float(weights.max()), 1e-300)))


def percent(proportion: float) -> str:
    """A proportion as text, with a decimal where it would otherwise be 0% or 100%."""
    plain = 0.01 <= proportion <= 0.99 or proportion in (0.0, 1.0)
    return f"{proportion:.0%}" if plain else f"{proportion:.1%}"


def draw_legend(axes: Any, weights: Array, noise: float | None = None, place: Any = None) -> None:
    """Draw the legend of all components and their weights: outside, where there is room for it.

    Parameters
    ----------
    axes : matplotlib Axes
        Whose legend it is.
    weights : array of shape (K,)
    noise : float, default=None
        The weight of noise, if there is any.
    place : Axes, default=None
        Empty axes which the legend may fill.
    """
    handles, names = legend_of(weights, noise)
    outside = axes.figure.get_layout_engine() is not None
    where: dict[str, Any] = {"loc": "upper right"}
    if place is not None:
        axes, where = place, {"loc": "upper right"}
    elif outside:
        where = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
    look: dict[str, Any] = {"ncols": -(-len(names) // ONE_COLUMN), "frameon": False}
    look["fontsize"] = "small" if len(names) <= 2 * ONE_COLUMN else "x-small"
    look |= {"columnspacing": 1.0, "handlelength": 1.6}
    legend = axes.legend(handles, names, title="component", **look, **where)
    legend.get_title().set_fontsize("small")
    legend.set_in_layout(place is None)  # an empty panel need not become as large as its legend


def legend_of(weights: Array, noise: float | None) -> tuple[list[Any], list[str]]:
    """Lines and names of the components; of many, those of the largest weights."""
    from matplotlib.lines import Line2D

    chosen = _heaviest(weights, MOST_NAMED)
    widths = line_widths(weights)
    handles: list[Any] = [
        Line2D([], [], color=colour_of(k), linestyle=line_of(k), linewidth=widths[k])
        for k in chosen
    ]
    names = [f"{k}  {percent(weights[k])}" for k in chosen]
    if noise is not None:
        handles.append(Line2D([], [], color=NOISE, linewidth=THIN))
        names.append(f"noise  {percent(noise)}")
    if len(chosen) < len(weights):
        handles.append(Line2D([], [], linestyle="none"))
        names.append(f"and {len(weights) - len(chosen)} more")
    return handles, names


def _heaviest(weights: Array, most: int) -> Sequence[int]:
    """The numbers of the components of largest weight, in ascending order."""
    heavy = np.argsort(-weights, kind="stable")[:most]
    return [int(k) for k in np.sort(heavy)]
