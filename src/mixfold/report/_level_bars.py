"""Proportions of the categories of a column in each component, as stacked bars."""

from __future__ import annotations

import numpy as np

from mixfold.report._blocks import Picture, Table
from mixfold.report._bokeh import name_ticks, new_figure
from mixfold.report._colours import NEUTRAL, Mark, colour_of
from mixfold.report._survey import Survey
from mixfold.report._texts import cut, percent

MOST_LEVELS = 9
MOST_COMPONENTS = 24
REST = "all other categories"


def level_bars(survey: Survey, j: int) -> Picture:
    """A bar for each component, divided by the categories of a column."""
    column, proportions = survey.columns[j], survey.profiles.levels[j]
    order = np.argsort(-survey.weights, kind="stable")[:MOST_COMPONENTS]
    total = (survey.weights[:, None] * proportions).sum(axis=0)
    levels = [int(i) for i in np.argsort(-total, kind="stable")]
    shown = sorted(levels[:MOST_LEVELS])
    figure = new_figure("proportion of the rows", "", height=70 + 34 * len(order))
    figure.toolbar_location = None
    places, left = -np.arange(len(order), dtype=float), np.zeros(len(order))
    legend = []
    for i, level in enumerate(shown):
        right = left + proportions[order, level]
        _draw(figure, places, left, right, colour_of(i))
        legend.append(Mark(column.levels[level], colour_of(i)))
        left = right
    if len(levels) > len(shown):
        _draw(figure, places, left, np.ones(len(order)), NEUTRAL)
        legend.append(Mark(REST, NEUTRAL))
    name_ticks(figure.yaxis[0], [cut(survey.names[int(k)], 20) for k in order], -1)
    figure.ygrid.grid_line_color = None
    figure.x_range.start, figure.x_range.end = 0.0, 1.0
    rows = [
        [column.levels[level], *(percent(float(proportions[k, level])) for k in order)]
        for level in levels[:60]
    ]
    more = f"{len(levels) - 60:,} categories are left out." if len(levels) > 60 else ""
    return Picture(
        f"Categories of {column.name}",
        "A bar for each component, the largest first, divided by proportions of the categories.",
        figure,
        [
            Table(
                f"Proportions of the categories of {column.name}",
                ["Category", *(survey.names[int(k)] for k in order)],
                rows,
                more=more,
            )
        ],
        legend,
    )


def _draw(figure: object, y: np.ndarray, left: np.ndarray, right: np.ndarray, tint: str) -> None:
    figure.hbar(  # type: ignore[attr-defined]
        y=y, left=left, right=right, height=0.72, color=tint, fill_alpha=0.75, line_alpha=0.9
    )
