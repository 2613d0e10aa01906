"""Every section of the report says something sound about every family, and can be read aloud."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from mixfold import Mixture
from mixfold.core.registry import find_all
from mixfold.report._blocks import Block, Details, Group, Paragraph, Picture, Sentences, Table
from mixfold.report._survey import Survey, survey

SECTIONS = find_all("report.sections")
FAMILIES = find_all("families")
SURVEYS: dict[str, Survey] = {}

# small data on which a component may be degenerate, which is tested elsewhere
pytestmark = pytest.mark.filterwarnings("ignore::mixfold.core.errors.LearningWarning")


def surveyed(name: str) -> Survey:
    """A mixture of two components of a family, and what one pass over rows of it finds."""
    if name not in SURVEYS:
        rng = np.random.default_rng(0)
        family: Any = FAMILIES[name].variants()[0]
        d = family.n_columns or (6 if name == "wishart" else 2)
        params = family.example(2, d, rng)
        rows = family.sample(params, rng.integers(2, size=120), rng)
        model = Mixture(family, 2, random_state=0, max_iter=3).fit(rows)
        SURVEYS[name] = survey(model, rows, 0, "rows of an example")
    return SURVEYS[name]


def inside(blocks: Sequence[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if isinstance(block, Details | Group):
            yield from inside(block.blocks)


def check_table(table: Table) -> None:
    assert table.caption
    assert table.header
    for row in table.rows:
        assert len(row) == len(table.header)
        assert all(isinstance(cell, str) and cell for cell in row[:1])
        assert not any("nan" in cell.split() for cell in row)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_is_complete(section: str, family: str) -> None:
    kind = SECTIONS[section]
    assert kind.title
    assert [other.order for other in SECTIONS.values()].count(kind.order) == 1
    for block in inside(kind().blocks(surveyed(family))):
        if isinstance(block, Table):
            check_table(block)
        elif isinstance(block, Picture):
            assert block.tables
            assert len(block.alternative) > 30
            for table in block.tables:
                check_table(table)
        elif isinstance(block, Paragraph):
            assert block.text[-1] in ".:"
        elif isinstance(block, Sentences):
            assert all(sentence.endswith(".") for sentence in block.sentences)
