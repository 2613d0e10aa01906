"""Rows as points in two columns, which menus choose, with an ellipse for each component."""

from __future__ import annotations

import numpy as np

from mixfold.core.rows import Array
from mixfold.report._blocks import Choice, Picture, Table
from mixfold.report._bokeh import follow_page, new_figure
from mixfold.report._describing import average
from mixfold.report._histograms import axis_name, colour, legend_of, marker, rounded
from mixfold.report._models import NOISE
from mixfold.report._survey import Survey
from mixfold.report._texts import counted

MOST_COLUMNS = 10
MOST_POINTS = 1_500
ANGLES = np.linspace(0.0, 2.0 * np.pi, 73)
RADIUS = 2.0  # standard deviations; holds 86% of the rows of a normal component
MOST_ELLIPSES = 40


def scatter(survey: Survey, columns: list[int]) -> Picture | None:
    """Points of rows with the ellipses of components; menus choose the two columns."""
    from bokeh.models import ColumnDataSource

    chosen = columns[:MOST_COLUMNS]
    if len(chosen) < 2:
        return None
    sample = survey.sample
    rows = np.linspace(0, len(sample) - 1, min(MOST_POINTS, len(sample))).round().astype(int)
    labels = sample.labels[rows]
    values = [_cells(sample.x[rows, j]) for j in chosen]
    centers, covariances = _moments(survey, chosen)
    ellipses = [k for k in range(survey.k) if survey.names[k] != NOISE][:MOST_ELLIPSES]
    figure = new_figure(*(axis_name(survey.columns[j]) for j in chosen[:2]), height=420)
    tint = [colour(survey, int(k)) for k in labels]
    points = ColumnDataSource(
        {
            "x": sample.x[rows, chosen[0]],
            "y": sample.x[rows, chosen[1]],
            "colour": tint,
            "marker": [marker(survey, int(k)) for k in labels],
        },
        name="scatter-points",
    )
    figure.scatter(
        "x",
        "y",
        marker="marker",
        size=6,
        fill_color="colour",
        line_color="colour",
        fill_alpha=0.35,
        line_alpha=0.7,
        source=points,
    )
    curves = [_ellipse(centers[k, :2], covariances[k, :2, :2]) for k in ellipses]
    outlines = ColumnDataSource(
        {
            "xs": [rounded(curve[:, 0]) for curve in curves],
            "ys": [rounded(curve[:, 1]) for curve in curves],
            "colour": [colour(survey, k) for k in ellipses],
        },
        name="scatter-ellipses",
    )
    halo = figure.multi_line("xs", "ys", line_color="white", line_width=5, source=outlines)
    follow_page(halo.glyph, "line_color", "--card")
    figure.multi_line("xs", "ys", line_color="colour", line_width=2.5, source=outlines)
    figure.xaxis.name, figure.yaxis.name = "scatter-x", "scatter-y"
    names = [survey.columns[j].name for j in chosen]
    data = {
        "kind": "axes",
        "values": values,
        "labels": [axis_name(survey.columns[j]) for j in chosen],
        "centers": [rounded(centers[k]) for k in ellipses],
        "covariances": [[rounded(row) for row in covariances[k]] for k in ellipses],
        "radius": RADIUS,
    }
    menus = (
        [Choice("x", "Across", names), Choice("y", "Upwards", names, 1)] if len(names) > 2 else ()
    )
    cells = [
        [name, *(average(survey, k, j) for j in chosen)] for k, name in enumerate(survey.names)
    ]
    return Picture(
        "Rows and components in two columns",
        f"Points are {counted(len(rows), 'row')} of the data, coloured by their most probable "
        "component; an ellipse is two standard deviations around the mean of a component, which "
        "holds 86% of its rows if they are normally distributed.",
        figure,
        [Table("Mean ± standard deviation of these columns", ["Component", *names], cells)],
        legend_of(survey),
        menus,
        data,
    )


def _cells(values: Array) -> list[float | None]:
    """Values of points; missing ones are not drawn."""
    known = np.nan_to_num(values)
    return [
        one if seen else None for one, seen in zip(rounded(known), ~np.isnan(values), strict=True)
    ]


def _moments(survey: Survey, columns: list[int]) -> tuple[Array, Array]:
    """Means (K, c) and covariances (K, c, c) of columns, by the responsibilities of the sample."""
    x, r = survey.sample.x[:, columns], survey.sample.responsibilities
    means = survey.profiles.means[:, columns]
    spread = survey.profiles.deviations[:, columns]
    seen = ~np.isnan(x)
    covariances = np.zeros((survey.k, len(columns), len(columns)))
    for k in range(survey.k):
        y = np.where(seen, x - np.nan_to_num(means[k]), 0.0)
        both = np.maximum((seen * r[:, k, None]).T @ seen, 1e-12)
        found = (y * r[:, k, None]).T @ y / both
        size = np.sqrt(np.maximum(np.diag(found), 1e-300))
        found *= np.outer(spread[k] / size, spread[k] / size)  # deviations are those of all rows
        covariances[k] = np.nan_to_num(found)
    return np.nan_to_num(means), covariances


def _ellipse(center: Array, covariance: Array) -> Array:
    """Points (m, 2) of the ellipse of RADIUS standard deviations; the script does the same."""
    a, b, c = covariance[0, 0], covariance[0, 1], covariance[1, 1]
    first = np.sqrt(max(a, 0.0))
    along = b / first if first > 0 else 0.0
    rest = np.sqrt(max(c - along**2, 0.0))
    x = first * np.cos(ANGLES)
    y = along * np.cos(ANGLES) + rest * np.sin(ANGLES)
    return np.asarray(center + RADIUS * np.stack([x, y], axis=1))
