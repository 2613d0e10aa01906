"""The means of components over many columns, in standard deviations from the mean of all rows."""

from __future__ import annotations

import numpy as np

from mixfold.report._blocks import Picture, Table
from mixfold.report._bokeh import follow_page, name_ticks, new_figure
from mixfold.report._describing import average
from mixfold.report._histograms import colour, legend_of, marker
from mixfold.report._survey import Survey
from mixfold.report._texts import counted, cut

MOST_COLUMNS = 24
MOST_COMPONENTS = 24


def profiles(survey: Survey, columns: list[int]) -> Picture | None:
    """A line for each component through its standardised means of the columns."""
    found = survey.profiles
    some = [j for j in columns if found.whole_deviations[j] > 0][:MOST_COLUMNS]
    if len(some) < 3 or survey.k == 1:
        return None
    order = np.argsort(-survey.weights, kind="stable")[:MOST_COMPONENTS]
    z = (found.means[:, some] - found.whole_means[some]) / found.whole_deviations[some]
    z = np.nan_to_num(np.clip(z, -6.0, 6.0))
    for i, j in enumerate(some):
        if survey.columns[j].kind == "angle":
            away = np.angle(np.exp(1j * (found.means[:, j] - found.whole_means[j])))
            z[:, i] = np.clip(np.nan_to_num(away / found.whole_deviations[j]), -6.0, 6.0)
    figure = new_figure(
        "standard deviations from the mean",
        "",
        height=90 + 26 * len(some),
    )
    places = -np.arange(len(some), dtype=float)
    zero = figure.line([0.0, 0.0], [places[-1] - 0.5, 0.5], line_width=1.5, color="gray")
    follow_page(zero.glyph, "line_color", "--axis")
    for k in map(int, order):
        tint = colour(survey, k)
        figure.line(z[k], places, color=tint, line_width=1.5, line_alpha=0.75)
        figure.scatter(z[k], places, color=tint, marker=marker(survey, k), size=8)
    name_ticks(figure.yaxis[0], [cut(survey.columns[j].name, 20) for j in some], -1)
    figure.ygrid.ticker = figure.yaxis[0].ticker
    left = len(columns) - len(some)
    rows = [[survey.columns[j].name, *(average(survey, int(k), j) for k in order)] for j in some]
    return Picture(
        "Profiles of the components",
        "For each component the means of the columns on which components differ most, in standard "
        "deviations from the mean of all rows"
        + (f"; not drawn: {counted(left, 'column')} with smaller differences." if left else "."),
        figure,
        [
            Table(
                "Mean ± standard deviation by component",
                ["Column", *(survey.names[int(k)] for k in order)],
                rows,
            )
        ],
        legend_of(survey),
    )
