"""Pictures of the rows and the components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from mixfold.report._blocks import Block, Paragraph
from mixfold.report._columns import is_picture
from mixfold.report._describing import ranked_columns
from mixfold.report._histograms import histogram
from mixfold.report._images import images
from mixfold.report._level_bars import level_bars
from mixfold.report._profiles import profiles
from mixfold.report._scatter import scatter
from mixfold.report._survey import Survey
from mixfold.report._texts import counted
from mixfold.report.section import Section

MOST_LEVEL_BARS = 8


class Rows(Section):
    """Values by component, points and ellipses, profiles, categories, and images."""

    title: ClassVar[str] = "Pictures"
    order: ClassVar[int] = 30

    def blocks(self, survey: Survey) -> Sequence[Block]:
        ranked = ranked_columns(survey)
        ordered = [j for j in ranked if survey.columns[j].ordered]
        levels = [j for j in ranked if not survey.columns[j].ordered]
        which = "all rows"
        if not survey.is_complete_sample:
            which = f"a random sample of {counted(len(survey.sample), 'row')}"
        text = (
            f"Pictures are drawn from {which}. Columns on which components differ most come first. "
            "The tools beside a picture zoom and move it; they can be reached by the Tab key."
        )
        side = is_picture(survey.columns, survey.named)
        found: list[Block | None] = [Paragraph(text)]
        if side:
            found.append(images(survey, side))
        else:
            found.append(scatter(survey, ordered))
            found.append(histogram(survey, ordered))
            found.append(profiles(survey, ordered))
            found += [level_bars(survey, j) for j in levels[:MOST_LEVEL_BARS]]
            left = len(levels) - MOST_LEVEL_BARS
            if left > 0:
                words = f"Not drawn: {counted(left, 'column')} of categories"
                found.append(Paragraph(f"{words} with smaller differences."))
        return [block for block in found if block is not None]
