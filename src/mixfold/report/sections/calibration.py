"""Whether the rows are distributed as the model promises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from mixfold.core.rows import Array
from mixfold.report._blocks import Block, Paragraph, Picture, Table
from mixfold.report._bokeh import follow_page, new_figure
from mixfold.report._colours import NEUTRAL, Mark, colour_of
from mixfold.report._histograms import promised
from mixfold.report._simulated import Simulated
from mixfold.report._survey import Survey
from mixfold.report._texts import counted, number, percent
from mixfold.report.section import Section

RATES = (0.1, 0.05, 0.01, 0.001, 0.0001)
LEAST_EXPECTED = 5.0  # rows below a threshold; with fewer, chance alone decides
TAIL = 1.96
GRID = np.concatenate([[0.001, 0.0025, 0.005], np.linspace(0.01, 0.99, 99), [0.995, 0.9975, 0.999]])
FALSE_ALARM = 0.05  # of all columns together, if the model is right
MOST_COLUMNS = 12


class Calibration(Section):
    """Promised against realised: scores, columns, and the certainty of components."""

    title: ClassVar[str] = "Calibration"
    order: ClassVar[int] = 60

    def blocks(self, survey: Survey) -> Sequence[Block]:
        drawn = survey.simulated
        if drawn is None or len(drawn.x) < 100:
            return [Paragraph("No rows could be drawn from the model to compare the data with.")]
        found: list[Block] = [
            Paragraph(
                "If the model is right, the rows are distributed like rows that are drawn from "
                f"it. {counted(len(survey.sample), 'row')} of the data are compared with "
                f"{counted(len(drawn.x), 'row')} drawn from the model, with cells missing where "
                "rows of the data have them. Rows that the model has learned from agree with it a "
                "little better than new ones would."
            ),
            _quantiles(survey.sample.log_density, drawn.log_density),
            _rates(survey.sample.log_density, drawn.log_density),
        ]
        distances, bound = _distances(survey.sample.x, drawn.x)
        found += _columns(survey, distances, bound)
        order = [int(j) for j in np.argsort(-distances, kind="stable")]
        ordered = [j for j in order if survey.columns[j].ordered]
        picture = promised(survey, ordered, drawn.x)
        found += [picture] if picture is not None else []
        return [*found, *_certainty(survey, drawn)]


def _quantiles(observed: Array, drawn: Array) -> Picture:
    """Quantiles of the log density of rows against those that the model promises."""
    x, y = np.quantile(drawn, GRID), np.quantile(observed, GRID)
    scale = float(drawn.std()) or 1.0
    figure = new_figure("promised log density of a row", "log density of the rows of the data")
    ends = [float(min(x[0], y[0])), float(max(x[-1], y[-1]))]
    line = figure.line(ends, ends, color=NEUTRAL, line_width=1.5, line_dash="dashed")
    follow_page(line.glyph, "line_color", "--axis")
    figure.scatter(x, y, color=colour_of(0), size=6)
    shown = [0, 3, 7, 12, 27, 52, 77, 92, 97, 101, 104]
    rows = [[percent(GRID[i]), number(x[i], scale), number(y[i], scale)] for i in shown]
    return Picture(
        "Log density of the rows: promised and realised",
        "Each point is a quantile of the log density, from 0.1% to 99.9%. On the dashed line the "
        "data are as the model promises; below it on the left, strange rows are stranger than "
        "promised.",
        figure,
        [
            Table(
                "Quantiles of the log density of rows",
                ["Quantile", "Promised", "Realised"],
                rows,
                words=(),
            )
        ],
    )


def _rates(observed: Array, drawn: Array) -> Table:
    """How many rows are below thresholds that the model's promise puts at some rates."""
    rows, n, m = [], len(observed), len(drawn)
    for rate in RATES:
        threshold = float(np.quantile(drawn, rate))
        proportion = float((drawn <= threshold).mean())  # ties make it larger than the rate
        if min(n, m) * proportion < LEAST_EXPECTED:
            continue
        realised = float((observed <= threshold).mean())
        size = TAIL * float(np.sqrt(proportion * (1.0 - proportion) * (1.0 / n + 1.0 / m)))
        low, high = max(0.0, proportion - size), min(1.0, proportion + size)
        verdict = "yes" if low <= realised <= high else "no"
        rows.append(
            [
                number(threshold, float(drawn.std())),
                percent(proportion),
                percent(realised),
                f"{percent(low)} to {percent(high)}",
                verdict,
            ]
        )
    header = ["Threshold", "Promised below it", "Realised", "By chance (95%)", "Agrees"]
    return Table(
        "Rows with a log density below a threshold: an alarm at the threshold would be as frequent",
        header,
        rows,
        words=(4,),
    )


def _distances(x: Array, y: Array) -> tuple[Array, float]:
    """The largest distance of the distribution functions of each column, and its bound by chance.

    The bound (Dvoretzky-Kiefer-Wolfowitz) holds for all columns together with the probability of
    95%, also for columns of few values.
    """
    found = np.zeros(x.shape[1])
    least = np.inf
    for j in range(x.shape[1]):
        one, other = (np.sort(part[~np.isnan(part[:, j]), j]) for part in (x, y))
        if not len(one) or not len(other):
            continue
        both = np.concatenate([one, other])
        below = [np.searchsorted(part, both, side="right") / len(part) for part in (one, other)]
        found[j] = np.abs(below[0] - below[1]).max()
        least = min(least, len(one) * len(other) / (len(one) + len(other)))
    bound = float(np.sqrt(np.log(2.0 * x.shape[1] / FALSE_ALARM) / (2.0 * least)))
    return found, bound


def _columns(survey: Survey, distances: Array, bound: float) -> list[Block]:
    """The columns whose distributions differ most from what the model promises."""
    d = len(distances)
    far = int((distances > bound).sum())
    if far:
        what = "the column" if d == 1 else f"{far:,} of {d:,} columns"
        words = (
            "Rows differ from what the model promises by more than chance explains in the "
            f"distribution of {what}."
        )
        role = "warning" if far > d / 4 else ""
    else:
        words = "The distribution of every column agrees with the model within chance."
        role = ""
    chosen = [int(j) for j in np.argsort(-distances, kind="stable")[:MOST_COLUMNS]]
    rows = [
        [
            survey.columns[j].name,
            percent(float(distances[j])),
            percent(bound),
            "no" if distances[j] > bound else "yes",
        ]
        for j in chosen
    ]
    left = d - len(chosen)
    table = Table(
        "The largest difference between the proportions of rows below any value, data and model",
        ["Column", "Largest difference", "At most by chance", "Agrees"],
        rows,
        words=(0, 3),
        more=f"Not shown: {counted(left, 'column')} with smaller differences." if left else "",
    )
    return [Paragraph(words, role), table]


def _certainty(survey: Survey, drawn: Simulated) -> list[Block]:
    """How certain the component of a row is, in the data and as promised."""
    if survey.k == 1:
        return []
    parts = (survey.sample.responsibilities, drawn.responsibilities)
    observed, promised_ = (part.max(axis=1) for part in parts)
    edges = np.linspace(0.0, 1.0, 21)
    edges = edges[edges >= 1.0 / survey.k - 0.05 - 1e-9]
    proportions = [np.histogram(part, edges)[0] / len(part) for part in (observed, promised_)]
    figure = new_figure("largest responsibility of a row", "proportion of rows", height=280)
    figure.quad(
        left=edges[:-1],
        right=edges[1:],
        bottom=0,
        top=proportions[0],
        color=NEUTRAL,
        fill_alpha=0.4,
        line_alpha=0.6,
    )
    x, y = np.repeat(edges, 2), np.concatenate([[0.0], np.repeat(proportions[1], 2), [0.0]])
    figure.line(x, y, color=colour_of(1), line_width=2)
    figure.y_range.start = 0
    rows = [
        [f"{low:.2f} to {high:.2f}", percent(a), percent(b)]
        for low, high, a, b in zip(edges[:-1], edges[1:], *proportions, strict=True)
    ]
    return [
        Picture(
            "How certain the component of a row is",
            f"The largest responsibility is {float(observed.mean()):.3f} on average in the data, "
            f"and {float(promised_.mean()):.3f} in rows drawn from the model. If the model is "
            "right, this is also the proportion of rows whose most probable component is the true "
            "one.",
            figure,
            [
                Table(
                    "Largest responsibility of rows",
                    ["Largest responsibility", "Data", "Promised by the model"],
                    rows,
                )
            ],
            [Mark("data", NEUTRAL), Mark("promised by the model", colour_of(1), "line")],
        )
    ]
