"""The comparison of numbers of components and covariances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixfold.report._blocks import Block, Paragraph, Picture, Table
from mixfold.report._bokeh import new_figure
from mixfold.report._colours import Mark, colour_of, marker_of
from mixfold.report._survey import Survey
from mixfold.report._texts import number
from mixfold.report.section import Section

FARTHEST = 3.0  # times the loss of the median candidate


class Selection(Section):
    """The criterion against the number of components, if several candidates were compared."""

    title: ClassVar[str] = "Selection"
    order: ClassVar[int] = 40

    def blocks(self, survey: Survey) -> Sequence[Block]:
        if survey.selection is None:
            return []
        criterion = survey.selection.criterion
        rows, best = _records(survey.selection.results_), survey.mixture
        larger = criterion == "held-out"
        own = {(row["n_components"], row["covariance"]) for row in rows}
        shape = str(getattr(best.family, "covariance", "") or "")
        name = shape if (best.n_components, shape) in own else ""
        which = f"{best.n_components} components" + (f" with covariance {name}" if name else "")
        how = "largest" if larger else "smallest"
        label = criterion if larger else criterion.upper()
        words = f"{len(rows)} candidates were compared. The {how} {label} is that of {which}."
        return [Paragraph(words), _picture(rows, criterion, larger)]


def _records(table: Any) -> list[dict[str, Any]]:
    """The rows of a pandas frame or an Arrow table."""
    found: list[dict[str, Any]] = (
        table.to_dict("records") if hasattr(table, "to_dict") else table.to_pylist()
    )
    return found


def _shown_range(rows: list[dict[str, Any]], column: str, larger: bool) -> tuple[float, float]:
    """A range of the criterion in which good candidates can be told apart."""
    sign = -1.0 if larger else 1.0
    loss = sign * np.array([float(row[column]) for row in rows])
    loss = loss[np.isfinite(loss)]
    best = float(loss.min())
    far = min(float(loss.max()), best + FARTHEST * (float(np.median(loss)) - best))
    pad = 0.05 * (far - best) or 0.01 * abs(best) + 1e-9
    ends = sorted([sign * (best - pad), sign * (far + pad)])
    return ends[0], ends[1]


def _picture(rows: list[dict[str, Any]], criterion: str, larger: bool) -> Picture:
    column = criterion.replace("-", "_")
    names = list(dict.fromkeys(str(row["covariance"]) for row in rows))
    label = "held-out log-density per row" if larger else criterion.upper()
    better = "larger is better" if larger else "smaller is better"
    figure, legend = new_figure("number of components", f"{label} ({better})"), []
    for i, name in enumerate(names):
        own = [row for row in rows if str(row["covariance"]) == name]
        k = [row["n_components"] for row in own]
        reached = [float(row[column]) for row in own]
        dash = "solid" if i < 10 else "dashed"
        figure.line(k, reached, color=colour_of(i), line_width=2, line_dash=dash)
        figure.scatter(k, reached, color=colour_of(i), marker=marker_of(i), size=8)
        legend.append(Mark(name or "family", colour_of(i), marker_of(i)))
    figure.y_range.start, figure.y_range.end = _shown_range(rows, column, larger)
    figure.xaxis.ticker = sorted({row["n_components"] for row in rows})
    sign = -1.0 if larger else 1.0
    ordered = sorted(rows, key=lambda row: (np.isnan(row[column]), sign * row[column]))
    cells = [
        [
            str(row["n_components"]),
            str(row["covariance"]) or "-",
            number(float(row[column]), 0.1 if larger else 10.0),
            f"{row['log_likelihood']:,.1f}",
            f"{row['n_parameters']:,}",
            str(row["dropped"]),
        ]
        for row in ordered
    ]
    header = ["Components", "Covariance", label, "Log-likelihood", "Parameters", "Remark"]
    return Picture(
        f"{label} against the number of components",
        f"A line for each of {len(names)} covariances; {better}. Candidates that were dropped "
        "early have what they had reached, and those far behind lie outside.",
        figure,
        [Table("All candidates, the best first", header, cells, words=(1, 5))],
        legend if any(names) else (),
    )
