"""Whether rows changed while they came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mixfold.core.rows import Array
from mixfold.report._blocks import Block, Paragraph, Picture, Table
from mixfold.report._bokeh import follow_page, new_figure
from mixfold.report._colours import colour_of
from mixfold.report._histograms import colour, legend_of
from mixfold.report._survey import Stretches, Survey
from mixfold.report._texts import counted, number, percent
from mixfold.report.section import Section

LEAST_STRETCHES = 4
FALSE_ALARM = 0.01  # that anything is found, if the order of the rows is random
MOST_COLUMNS = 8


class Drift(Section):
    """Likelihood, proportions of components and means of columns over the rows in their order."""

    title: ClassVar[str] = "Drift"
    order: ClassVar[int] = 70

    def blocks(self, survey: Survey) -> Sequence[Block]:
        parts = survey.stretches
        m = len(parts.rows)
        if m < LEAST_STRETCHES:
            return [Paragraph("There are too few rows to say whether they change over time.")]
        ends = np.cumsum(parts.rows)
        found: list[Block] = [
            Paragraph(
                f"The rows in their order, in {m} stretches of about "
                f"{parts.rows[0]:,.0f} rows. If their order has no meaning, this section has none "
                "either."
            ),
            _verdict(survey, parts, ends),
            _likelihood(survey, parts, ends),
        ]
        if survey.k > 1:
            found.append(_proportions(survey, parts, ends))
        return [*found, *_moving(survey, parts, ends)]


def _limit(tests: int) -> float:
    """How many standard errors chance reaches in one of so many normal variables."""
    from scipy.stats import norm

    return float(norm.isf(FALSE_ALARM / (2.0 * tests)))


def _standard_errors(parts: Stretches, deviation: float) -> Array:
    """Standard errors of the difference of a stretch's mean from that of all rows."""
    total = parts.rows.sum()
    finite = np.maximum(1.0 - parts.rows / total, 1e-12)  # the stretch is among all rows
    return np.asarray(deviation * np.sqrt(finite / parts.rows))


def _between(ends: Array, i: int) -> str:
    first = 1 if i == 0 else int(ends[i - 1]) + 1
    return f"rows {first:,} to {int(ends[i]):,}"


def _verdict(survey: Survey, parts: Stretches, ends: Array) -> Paragraph:
    """Whether the likelihood of some stretch is further from the mean than chance explains."""
    if not survey.deviation > 0.0:
        return Paragraph("The log-likelihood is the same in all rows.")
    z = (parts.log_density - survey.mean) / _standard_errors(parts, survey.deviation)
    i, limit = int(np.abs(z).argmax()), _limit(len(z))
    side = "above" if z[i] > 0 else "below"
    far = f"{abs(z[i]):.1f} standard errors {side} the mean, in {_between(ends, i)}"
    if abs(z[i]) > limit:
        words = (
            f"The log-likelihood of the rows changes over time: it is {far}. By chance it would "
            f"reach {limit:.1f} in one of a hundred random orders."
        )
        return Paragraph(words, "warning")
    words = (
        f"The log-likelihood shows no drift: it is at most {far}, and chance reaches {limit:.1f} "
        "in one of a hundred random orders."
    )
    return Paragraph(words, "note")


def _likelihood(survey: Survey, parts: Stretches, ends: Array) -> Picture:
    middle, error = ends - parts.rows / 2.0, _standard_errors(parts, survey.deviation)
    limit = _limit(len(ends))
    figure = new_figure("number of the row", "log-likelihood per row")
    low, high = survey.mean - limit * error, survey.mean + limit * error
    figure.varea(x=middle, y1=low, y2=high, fill_color=colour_of(-1), fill_alpha=0.2)
    line = figure.line([0, ends[-1]], [survey.mean] * 2, line_dash="dashed", line_width=1.5)
    follow_page(line.glyph, "line_color", "--axis")
    figure.line(middle, parts.log_density, color=colour_of(0), line_width=2)
    figure.scatter(middle, parts.log_density, color=colour_of(0), size=5)
    figure.xaxis.formatter.use_scientific = False
    rows = [
        [_between(ends, i), number(float(value), survey.deviation)]
        for i, value in enumerate(parts.log_density)
    ]
    return Picture(
        "Log-likelihood over the rows",
        "The mean log-likelihood of stretches of rows. The dashed line is the mean of all rows, "
        "and the grey band what chance explains.",
        figure,
        [Table("Log-likelihood per row", ["Rows", "Log-likelihood per row"], rows)],
    )


def _proportions(survey: Survey, parts: Stretches, ends: Array) -> Picture:
    """The proportions of the components over the rows."""
    middle = ends - parts.rows / 2.0
    figure = new_figure("number of the row", "proportion of the rows")
    order = [int(k) for k in np.argsort(-survey.weights, kind="stable")[:12]]
    for k in order:
        y = parts.responsibilities[:, k]
        figure.line(middle, y, color=colour(survey, k), line_width=2)
    figure.xaxis.formatter.use_scientific = False
    figure.y_range.start = 0
    rows = [
        [_between(ends, i), *(percent(float(parts.responsibilities[i, k])) for k in order)]
        for i in range(len(ends))
    ]
    marks = legend_of(survey, "line")
    left = survey.k - len(order)
    also = f" {counted(left, 'smaller component')} are left out." if left else ""
    return Picture(
        "Proportions of the components over the rows",
        "The mean responsibility of each component in stretches of rows." + also,
        figure,
        [Table("Proportions of the components", ["Rows", *(survey.names[k] for k in order)], rows)],
        [marks[k] for k in order] if marks else (),
    )


def _moving(survey: Survey, parts: Stretches, ends: Array) -> list[Block]:
    """The columns whose means move more than chance explains."""
    columns: NDArray[np.intp] = parts.columns
    if not len(columns):
        return []
    mean = survey.profiles.whole_means[columns]
    spread = survey.profiles.whole_deviations[columns]
    finite = np.maximum(1.0 - parts.rows[:, None] / parts.rows.sum(), 1e-12)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = (parts.means - mean) / (spread * np.sqrt(finite / parts.seen))
    z = np.where(np.isfinite(z) & (parts.seen >= 10), z, 0.0)
    limit, top = _limit(z.size), np.abs(z).max(axis=0)
    order = [int(i) for i in np.argsort(-top, kind="stable") if top[i] > limit][:MOST_COLUMNS]
    if not order:
        words = "The mean of no column moves by more than chance explains."
        return [Paragraph(words)]
    rows = []
    for i in order:
        at, j = int(np.abs(z[:, i]).argmax()), int(columns[i])
        column = survey.columns[j]
        value = parts.means[at, i]
        if column.kind == "level":
            name, other = column.levels[-1], percent(float(mean[i]))
            texts = [f"“{name}” in {percent(float(value))}", f"“{name}” in {other}"]
        else:
            texts = [column.text(float(one), float(spread[i])) for one in (value, mean[i])]
        rows.append([column.name, _between(ends, at), *texts, f"{abs(z[at, i]):.1f}"])
    n = int((top > limit).sum())
    header = ["Column", "Where it is farthest", "Mean there", "Mean of all rows", "Standard errors"]
    return [
        Table(
            "Columns whose means move most over the rows",
            header,
            rows,
            words=(0, 1),
            more=f"The means of {n:,} of {counted(len(columns), 'column')} move by more than the "
            f"{limit:.1f} standard errors that chance explains.",
        )
    ]
