"""How the likelihood rose while the model learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from mixfold.core.registry import described
from mixfold.report._blocks import Block, Paragraph, Picture, Table
from mixfold.report._bokeh import new_figure
from mixfold.report._colours import COLOURS
from mixfold.report._survey import Survey
from mixfold.report._texts import counted, number
from mixfold.report.section import Section

MOST_ENTRIES = 40
LEAST_SPAN = 0.005  # nats, so that rounding errors are not drawn as large steps


class History(Section):
    """The log-likelihood per row after every pass or update."""

    title: ClassVar[str] = "Learning"
    order: ClassVar[int] = 50

    def blocks(self, survey: Survey) -> Sequence[Block]:
        mixture = survey.mixture
        history = mixture.history_
        words = f"The learner was {described(mixture.learner_)}; it learned from "
        words += f"{counted(mixture.n_rows_, 'row')}"
        if mixture.n_iter_:
            passes = "pass" if mixture.n_iter_ == 1 else "passes"
            words += f" in {mixture.n_iter_:,} {passes} over the data."
        else:
            words += ", which came as a stream."
        found: list[Block] = [Paragraph(words)]
        for row in getattr(mixture, "drifts_", ()):
            words = f"Drift was detected: the learner was restarted after row {row:,}."
            found.append(Paragraph(words))
        for decision in getattr(mixture, "decisions_", ()):
            found.append(Paragraph(f"The number of components was changed: {decision}."))
        if len(history) < 2:
            why = "No history of the log-likelihood was recorded, or only one value."
            return [*found, Paragraph(why)]
        return [*found, _picture(history)]


def _picture(history: object) -> Picture:
    rows = np.asarray(history.rows)  # type: ignore[attr-defined]
    reached = np.asarray(history.log_likelihood)  # type: ignore[attr-defined]
    figure = new_figure("rows read, all passes together", "log-likelihood per row")
    figure.line(rows, reached, color=COLOURS[0], line_width=2)
    figure.scatter(rows, reached, color=COLOURS[0], size=6 if len(rows) <= 60 else 3)
    figure.xaxis.formatter.use_scientific = False
    middle = float(reached.max() + reached.min()) / 2.0
    half = max(0.55 * float(np.ptp(reached)), LEAST_SPAN)
    figure.y_range.start, figure.y_range.end = middle - half, middle + half
    chosen = np.unique(np.linspace(0, len(rows) - 1, MOST_ENTRIES).round().astype(int))
    scale = max(float(np.ptp(reached)) / 100.0, 1e-4)
    entries = [[f"{rows[i]:,.0f}", number(float(reached[i]), scale)] for i in chosen]
    left = len(rows) - len(chosen)
    more = f"{left:,} entries between these are left out." if left else ""
    first, last = (number(float(reached[i]), scale) for i in (0, -1))
    return Picture(
        "Log-likelihood per row while learning",
        f"A line from {first} at the first of {len(rows):,} entries to {last} at the last.",
        figure,
        [
            Table(
                "Log-likelihood per row while learning",
                ["Rows read", "Log-likelihood per row"],
                entries,
                words=(),
                more=more,
            )
        ],
    )
