"""The picture of a fitted table: BIC, the weights, and a heat map of the components."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from table_profiles import Line

WIDTH, LABELS, TOP = 8.0, 2.5, 1.5  # inches: of all, of the names of columns, of the upper panels
LINE = 0.255  # inches, height of a line of the heat map
DPI = 150
MOST_DEVIATIONS, DARK = 1.6, 0.95  # standard deviations: full colour, and where text is white
BLUE, GREY = "#2f6f9f", "#555555"


def draw_table(path: Path, bics: Sequence[float], weights: np.ndarray, lines: list[Line]) -> None:
    """Write a picture that is read at a width of 800 pixels."""
    below = LINE * (len(lines) + 1.5)
    figure = Figure(figsize=(WIDTH, TOP + below + 0.55))
    height = figure.get_figheight()
    left, right = LABELS / WIDTH, 0.99
    first = (right - left) / (len(weights) + 1)  # the column of all rows
    bottom, top = 0.1 / height, below / height
    upper, size = (below + 0.5) / height, (TOP - 0.35) / height
    draw_bic(figure.add_axes((0.085, upper, left + first - 0.11, size)), bics)
    draw_weights(
        figure.add_axes((left + first + 0.001, upper, right - left - first, size)), weights
    )
    draw_profile(figure.add_axes((left, bottom, right - left, top - bottom)), lines)
    figure.savefig(path, dpi=DPI)


def draw_bic(axes: Axes, bics: Sequence[float]) -> None:
    """BIC above its least value against the number of components."""
    above = np.array(bics) - min(bics)
    best = int(np.argmin(bics))
    axes.plot(range(1, len(bics) + 1), above, "o-", color=BLUE, markersize=3.5, linewidth=1.3)
    axes.plot([best + 1], [0.0], "o", markersize=9, markerfacecolor="none", color="#c8553d")
    axes.set_xticks(range(1, len(bics) + 1))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.set_title("BIC above its least value, by components", fontsize=8.5, loc="left", x=-0.13)
    _plain(axes)


def _plain(axes: Axes) -> None:
    axes.tick_params(labelsize=8, color=GREY, labelcolor=GREY)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["bottom", "left"]].set_color(GREY)


def draw_weights(axes: Axes, weights: np.ndarray) -> None:
    """A bar for every component, above its column of the heat map."""
    places = range(len(weights))
    axes.bar(places, weights, width=0.7, color=BLUE)
    for place, weight in zip(places, weights, strict=True):
        axes.text(place, weight, f"{weight:.0%}", ha="center", va="bottom", fontsize=8.5)
    axes.set_xlim(-0.5, len(weights) - 0.5)
    axes.set_ylim(0.0, 1.18 * float(weights.max()))
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title("weights of the components", fontsize=8.5)
    axes.spines[["top", "right", "left"]].set_visible(False)


def draw_profile(axes: Axes, lines: list[Line]) -> None:
    """What is written are means and shares, the colours are standard deviations from all rows."""
    deviations = np.stack([np.concatenate([[0.0], line.deviations]) for line in lines])
    axes.imshow(
        deviations, cmap="RdBu_r", vmin=-MOST_DEVIATIONS, vmax=MOST_DEVIATIONS, aspect="auto"
    )
    for i, line in enumerate(lines):
        for j, text in enumerate(line.texts):
            colour = "white" if abs(deviations[i, j]) > DARK else "black"
            axes.text(j, i, text, ha="center", va="center", fontsize=8.5, color=colour)
    axes.set_yticks(range(len(lines)), [line.label for line in lines], fontsize=8.5)
    names = ["all", *(str(k + 1) for k in range(deviations.shape[1] - 1))]
    axes.set_xticks(range(len(names)), names, fontsize=9, fontweight="bold")
    axes.xaxis.tick_top()
    axes.axvline(0.5, color="white", linewidth=4)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xticks(np.arange(1.5, len(names) - 1.0), minor=True)
    axes.set_yticks(np.arange(0.5, len(lines) - 1.0), minor=True)
    axes.grid(which="minor", color="white", linewidth=1.0)
    axes.tick_params(which="minor", length=0)
