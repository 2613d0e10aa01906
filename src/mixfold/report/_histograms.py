"""Bars of the values of a column, component by component, with a menu of columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixfold.core.rows import Array
from mixfold.report._blocks import Choice, Picture, Table
from mixfold.report._bokeh import new_figure
from mixfold.report._colours import Mark, colour_of, marker_of
from mixfold.report._columns import Column
from mixfold.report._models import NOISE
from mixfold.report._survey import Survey
from mixfold.report._texts import cut

MOST_COLUMNS = 12
MOST_WHOLE = 60  # different whole numbers that get a bar each
BINS = 40
MOST_BARS = 24_000
CURVE = 300
QUARTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


def edges_of(column: Column, values: Array) -> Array:
    """Limits of bars: one for every whole number, or equal ones; far values are left out."""
    low, high = float(values.min()), float(values.max())
    near = np.quantile(values, [0.005, 0.995])
    if high - low > 8.0 * (near[1] - near[0]) > 0.0:
        low, high = float(near[0]), float(near[1])
    if column.kind == "count" and high - low <= MOST_WHOLE:
        return np.arange(np.floor(low), np.ceil(high) + 2.0) - 0.5
    if high <= low:
        low, high = low - 0.5, high + 0.5
    if column.kind == "count":  # several whole numbers in each bar, the same number in all
        step = np.ceil((high - low + 1.0) / BINS)
        return np.arange(np.floor(low), high + step + 1.0, step) - 0.5
    number = int(np.clip(np.sqrt(len(values)), 8, BINS))
    return np.linspace(low, high, number + 1)


def axis_name(column: Column) -> str:
    """The label of an axis with the values of a column."""
    return f"{cut(column.name)}, days since 1970" if column.kind == "date" else cut(column.name)


def colour(survey: Survey, k: int) -> str:
    """The colour of a component, or of noise."""
    return colour_of(-1 if survey.names[k] == NOISE else k)


def marker(survey: Survey, k: int) -> str:
    """The marker of a component, or of noise."""
    return marker_of(-1 if survey.names[k] == NOISE else k)


def histogram(survey: Survey, columns: list[int]) -> Picture | None:
    """Stacked bars of values by component; a menu chooses the column."""
    sample, options, rows = survey.sample, [], []
    chosen = [j for j in columns if (~np.isnan(sample.x[:, j])).any()]
    chosen = chosen[: max(1, min(MOST_COLUMNS, MOST_BARS // (BINS * survey.k)))]
    if not chosen:
        return None
    for j in chosen:
        options.append(_bars(survey, j))
        rows += _quartiles(survey, j)
    from bokeh.models import ColumnDataSource

    first = options[0]
    figure = new_figure(axis_name(survey.columns[chosen[0]]), "rows in the sample")
    source = ColumnDataSource(first["sources"]["histogram"], name="histogram")
    figure.quad(
        left="left",
        right="right",
        bottom="bottom",
        top="top",
        fill_color="colour",
        line_color="colour",
        fill_alpha=0.55,
        line_alpha=0.9,
        source=source,
    )
    figure.xaxis.name, figure.y_range.start = "histogram-x", 0
    if len(survey.columns) == 1:
        _draw_curves(figure, survey, chosen[0])
    return Picture(
        "Values of a column by component",
        "Bars of the values in the sample of rows, stacked by the component to which each row "
        "belongs by its responsibilities. Values far beyond nearly all others are not drawn."
        + (" Curves are the densities of the model." if len(survey.columns) == 1 else ""),
        figure,
        [
            Table(
                "Quartiles of the values of rows most probable in each component",
                ["Column", "Component", "Smallest", "25%", "Median", "75%", "Largest"],
                rows,
                words=(0, 1),
            )
        ],
        legend_of(survey, "square"),
        [Choice("option", "Column", [survey.columns[j].name for j in chosen])]
        if len(chosen) > 1
        else (),
        {"kind": "options", "axis": "histogram-x", "options": options},
    )


def legend_of(survey: Survey, shape: str = "") -> list[Mark]:
    """The colours of the components, with their own markers or one for all."""
    if survey.k == 1 or survey.k > 24:
        return []
    return [
        Mark(name, colour(survey, k), shape or marker(survey, k))
        for k, name in enumerate(survey.names)
    ]


def _bars(survey: Survey, j: int) -> dict[str, Any]:
    """The bars of a column, of all components."""
    there, column = ~np.isnan(survey.sample.x[:, j]), survey.columns[j]
    x, r = survey.sample.x[there, j], survey.sample.responsibilities[there]
    edges = edges_of(column, x)
    bars: dict[str, list[Any]] = {name: [] for name in ("left", "right", "bottom", "top", "colour")}
    gap = 0.05 * float(edges[1] - edges[0]) if column.kind == "count" else 0.0
    below = np.zeros(len(edges) - 1)
    for k in range(survey.k):
        above = below + np.histogram(x, edges, weights=r[:, k])[0]
        some = np.flatnonzero(above - below > 1e-3)
        bars["left"] += rounded(edges[some] + gap)
        bars["right"] += rounded(edges[some + 1] - gap)
        bars["bottom"] += rounded(below[some])
        bars["top"] += rounded(above[some])
        bars["colour"] += [colour(survey, k)] * len(some)
        below = above
    return {"sources": {"histogram": bars}, "label": axis_name(column)}


def rounded(values: NDArray[np.generic]) -> list[float]:
    """Numbers with seven significant digits, which take less room in the page."""
    return [float(f"{value:.7g}") for value in values.tolist()]


def _quartiles(survey: Survey, j: int) -> list[list[str]]:
    column, x, labels = survey.columns[j], survey.sample.x[:, j], survey.sample.labels
    scale = float(survey.profiles.whole_deviations[j])
    rows = []
    for k, name in enumerate(survey.names):
        own = x[(labels == k) & ~np.isnan(x)]
        found = np.quantile(own, QUARTILES) if len(own) else np.full(5, np.nan)
        texts = [column.text(float(q), scale) if len(own) else "no rows" for q in found]
        rows.append([column.name, name, *texts])
    return rows


def _draw_curves(figure: Any, survey: Survey, j: int) -> None:
    """The densities of the components of a model of one column, in numbers of rows."""
    x = survey.sample.x[:, j]
    x = x[~np.isnan(x)]
    column = survey.columns[j]
    edges = edges_of(column, x)
    width, support = edges[1] - edges[0], survey.model.family.supports(1)[0]
    low, high = max(edges[0], support.low), min(edges[-1], support.high)
    whole = column.kind == "count"
    if whole:
        grid = np.arange(np.ceil(low), np.floor(high) + 1.0)
    else:
        inside = 1e-4 * (high - low)
        grid = np.linspace(low + inside, high - inside, CURVE)
    logs = survey.model.log_joint(survey.mixture.params_, grid[:, None])
    below = np.zeros(len(grid))
    for k in range(logs.shape[1]):
        below = below + np.exp(logs[:, k])
        y = len(x) * width * below
        if whole:
            figure.scatter(grid, y, color=colour(survey, k), size=7, fill_color=None, line_width=2)
        else:
            figure.line(grid, y, color=colour(survey, k), line_width=2)


def promised(survey: Survey, columns: list[int], simulated: Array) -> Picture | None:
    """Bars of the values of columns in the data, and a line of those that the model promises."""
    from bokeh.models import ColumnDataSource

    chosen = columns[:MOST_COLUMNS]
    options, rows = [], []
    for j in chosen:
        x, y = (part[~np.isnan(part[:, j]), j] for part in (survey.sample.x, simulated))
        if not len(x) or not len(y):
            continue
        column = survey.columns[j]
        edges = edges_of(column, x)
        seen, drawn = (np.histogram(part, edges)[0] / len(part) for part in (x, y))
        bars = {"left": rounded(edges[:-1]), "right": rounded(edges[1:]), "top": rounded(seen)}
        line = {
            "x": rounded(np.repeat(edges, 2)),
            "y": [0.0, *rounded(np.repeat(drawn, 2)), 0.0],
        }
        sources = {"promised-bars": bars, "promised-line": line}
        options.append({"sources": sources, "label": axis_name(column)})
        scale = float(survey.profiles.whole_deviations[j])
        for q in (0.05, 0.25, 0.5, 0.75, 0.95):
            one, other = np.quantile(x, q), np.quantile(y, q)
            rows.append(
                [column.name, f"{q:.0%}", column.text(one, scale), column.text(other, scale)]
            )
    if not options:
        return None
    first = options[0]["sources"]
    figure = new_figure(str(options[0]["label"]), "proportion of rows")
    assert isinstance(first, dict)
    bars_of = ColumnDataSource(first["promised-bars"], name="promised-bars")
    line_of = ColumnDataSource(first["promised-line"], name="promised-line")
    figure.quad(
        left="left",
        right="right",
        bottom=0,
        top="top",
        source=bars_of,
        color=colour_of(-1),
        fill_alpha=0.4,
        line_alpha=0.6,
    )
    figure.line("x", "y", source=line_of, color=colour_of(1), line_width=2)
    figure.xaxis.name, figure.y_range.start = "promised-x", 0
    names = [column["label"] for column in options]
    return Picture(
        "Values of a column: in the data, and promised by the model",
        "Grey bars are the rows of the sample; the line is what the model promises, from rows that "
        "were drawn from it. Columns that differ most come first.",
        figure,
        [
            Table(
                "Quantiles of columns in the data and in rows drawn from the model",
                ["Column", "Quantile", "Data", "Model"],
                rows,
            )
        ],
        [Mark("data", colour_of(-1)), Mark("promised by the model", colour_of(1), "line")],
        [Choice("option", "Column", [str(name) for name in names])] if len(names) > 1 else (),
        {"kind": "options", "axis": "promised-x", "options": options},
    )
