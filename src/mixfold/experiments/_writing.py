"""Tables as CSV and Markdown, box plots as PNG."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mixfold.core.errors import MissingExtraError

Boxes = Mapping[str, Sequence[float]]


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """One line per result, named columns."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_markdown(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table that Markdown shows: names to the left, numbers to the right."""
    rule = [":--"] + ["--:"] * (len(header) - 1)
    lines = ["| " + " | ".join(cells) + " |" for cells in (header, rule, *rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def new_figure(width: float, height: float) -> Any:
    """An empty figure of that many inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "studies", "drawing") from error
    return Figure(figsize=(width, height), layout="constrained")


def draw_boxes(
    path: Path, title: str, panels: Mapping[str, Boxes], logarithmic: Sequence[str] = ()
) -> None:
    """Panels side by side, a horizontal box for every method."""
    names = list(next(iter(panels.values())))
    figure = new_figure(11.0, 1.1 + 0.21 * len(names))
    figure.suptitle(title, fontsize=10)
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, (label, boxes) in zip(axes, panels.items(), strict=True):
        _draw_panel(axis, label, boxes, label in logarithmic and spans_decades(boxes))
    axes[0].set_yticks(range(len(names)), names)
    axes[0].invert_yaxis()
    figure.savefig(path, dpi=90)


def spans_decades(boxes: Boxes) -> bool:
    """Whether a logarithmic scale would have more than one label."""
    values = [value for box in boxes.values() for value in box]
    return max(values) > 100.0 * min(values) > 0.0


def _draw_panel(axis: Any, label: str, boxes: Boxes, logarithmic: bool) -> None:
    from matplotlib.ticker import MaxNLocator, NullFormatter

    axis.boxplot(
        list(boxes.values()),
        positions=range(len(boxes)),
        manage_ticks=False,
        orientation="horizontal",
        widths=0.6,
        patch_artist=True,
        boxprops={"facecolor": "#c6dbef", "linewidth": 0.8},
        medianprops={"color": "#b2182b", "linewidth": 1.5},
        flierprops={"marker": ".", "markersize": 4},
    )
    if logarithmic:
        axis.set_xscale("log")
        axis.xaxis.set_minor_formatter(NullFormatter())
    else:
        axis.xaxis.set_major_locator(MaxNLocator(4))
    axis.set_title(label, fontsize=9)
    axis.tick_params(labelsize=8)
    axis.xaxis.get_offset_text().set_fontsize(7)
    axis.grid(axis="x", linewidth=0.4, alpha=0.6)


def draw_lines(
    path: Path,
    title: str,
    axes: tuple[str, str],
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]],
) -> None:
    """A line for every method, both axes logarithmic."""
    figure = new_figure(7.0, 4.5)
    axis = figure.subplots()
    for name, (x, y) in lines.items():
        axis.plot(x, y, marker="o", markersize=4, label=name)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel(axes[0])
    axis.set_ylabel(axes[1])
    axis.set_title(title, fontsize=10)
    axis.grid(linewidth=0.4, alpha=0.6)
    axis.legend(fontsize=8)
    figure.savefig(path, dpi=90)
