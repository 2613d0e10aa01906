"""Curves against rows seen: medians with a band of quartiles."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mixfold.core.rows import Array
from mixfold.experiments._writing import new_figure

# rows seen (marks,), and values (replications, marks)
Curve = tuple[Array, Array]

COLOURS = ("#000000", "#7f7f7f", "#1f77b4", "#17becf", "#d62728", "#ff7f0e", "#2ca02c")
DASHES = ("-", "--", "-", ":", "-", "--", "-.")


def draw_curves(
    path: Path, title: str, panels: Mapping[tuple[str, str], Mapping[str, Curve]]
) -> None:
    """A grid of panels by (row, column); all curves of a grid row share their scale."""
    lines, columns = (list(dict.fromkeys(key[i] for key in panels)) for i in (0, 1))
    figure = new_figure(2.7 * len(columns), 0.9 + 2.5 * len(lines))
    figure.suptitle(title, fontsize=11)
    grid = figure.subplots(len(lines), len(columns), sharex=True, sharey="row", squeeze=False)
    for (line, column), curves in panels.items():
        axis = grid[lines.index(line), columns.index(column)]
        _draw_panel(axis, curves)
    for column, axis in zip(columns, grid[0], strict=True):
        axis.set_title(column, fontsize=10)
    for line, axis in zip(lines, grid[:, 0], strict=True):
        axis.set_ylabel(line, fontsize=9)
    for axis in grid[-1]:
        axis.set_xlabel("rows seen", fontsize=9)
    handles, names = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), fontsize=9)
    figure.savefig(path, dpi=80)


def _draw_panel(axis: Any, curves: Mapping[str, Curve]) -> None:
    from matplotlib.ticker import NullFormatter

    for i, (name, (rows, values)) in enumerate(curves.items()):
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
        colour, dash = COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]
        axis.fill_between(rows, low, high, color=colour, alpha=0.12, linewidth=0)
        axis.plot(rows, middle, dash, color=colour, linewidth=1.6, label=name)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.tick_params(labelsize=8)
    axis.grid(linewidth=0.4, alpha=0.5)
