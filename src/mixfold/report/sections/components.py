"""The components in words: how many rows each has, and what sets it apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from mixfold.report._blocks import Block, Details, Group, Paragraph, Sentences, Table
from mixfold.report._colours import colour_of
from mixfold.report._columns import is_picture
from mixfold.report._describing import average, differences, ranked_columns, usual_values
from mixfold.report._models import NOISE
from mixfold.report._survey import Survey
from mixfold.report._texts import counted, percent, whole
from mixfold.report.section import Section

MOST_SENTENCES = 5
MOST_GROUPS = 12
MOST_COLUMNS = 40
MOST_CELLS = 1200


class Components(Section):
    """Weights, certainty, and the columns on which a component differs most from the rest."""

    title: ClassVar[str] = "Components"
    order: ClassVar[int] = 20

    def blocks(self, survey: Survey) -> Sequence[Block]:
        if survey.k == 1:
            return self._single(survey)
        order = [int(k) for k in (-survey.weights).argsort(kind="stable")]
        found: list[Block] = [
            Paragraph(
                "The weight of a component is its proportion of all rows. A row counts for a "
                "component by its responsibility, the probability that it belongs there."
            ),
            _overview(survey, order),
        ]
        if not is_picture(survey.columns, survey.named):
            groups = [_group(survey, k) for k in order]
            found += groups[:MOST_GROUPS]
            if len(groups) > MOST_GROUPS:
                rest = len(groups) - MOST_GROUPS
                found.append(Details(f"{counted(rest, 'component')} more", groups[MOST_GROUPS:]))
            found.append(_averages(survey, order))
        return found

    def _single(self, survey: Survey) -> list[Block]:
        found: list[Block] = [
            Paragraph("All rows belong to one component, which describes them as follows.")
        ]
        if not is_picture(survey.columns, survey.named):
            found += [Sentences(usual_values(survey, 12)), _averages(survey, [0])]
        return found


def _overview(survey: Survey, order: list[int]) -> Table:
    """A table of weights; promised are those of the model, realised those of these rows."""
    promised = [*survey.mixture.weights_, *(1.0 - survey.mixture.weights_.sum(),)]
    rows = []
    for k in order:
        rows_of = survey.labelled[k]
        sure = percent(survey.certainty[k] / rows_of) if rows_of else "no rows"
        rows.append(
            [
                survey.names[k],
                percent(float(promised[k])),
                percent(float(survey.weights[k])),
                whole(rows_of),
                sure,
            ]
        )
    header = [
        "Component",
        "Weight in the model",
        "Proportion of these rows",
        "Rows most probable here",
        "Their mean responsibility",
    ]
    return Table("Weights of the components, the largest first", header, rows)


def _group(survey: Survey, k: int) -> Group:
    noise = survey.names[k] == NOISE
    title = f"{survey.names[k].capitalize()}: {percent(float(survey.weights[k]))} of the rows"
    if noise:
        words = "Rows far from all components, which have a constant density."
        return Group(title, [Paragraph(words)], colour_of(-1))
    apart = differences(survey, k, MOST_SENTENCES)
    if not apart:
        words = "It differs little from the other rows in the mean of any column."
        return Group(title, [Paragraph(words)], colour_of(k))
    return Group(title, [Sentences(apart)], colour_of(k))


def _averages(survey: Survey, order: list[int]) -> Details:
    """The means and standard deviations of the columns that matter most."""
    most = max(1, min(MOST_COLUMNS, MOST_CELLS // len(order)))
    columns = ranked_columns(survey)[:most]
    rows = [[survey.columns[j].name, *(average(survey, k, j) for k in order)] for j in columns]
    left = len(survey.columns) - len(columns)
    more = f"Not shown: {counted(left, 'column')} with smaller differences." * (left > 0)
    table = Table(
        "Mean ± standard deviation in each component, or the most frequent category",
        ["Column", *(survey.names[k] for k in order)],
        rows,
        more=more,
    )
    return Details("All averages as a table", [table])
