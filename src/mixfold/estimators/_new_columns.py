"""Columns that appear while a stream is learned.

A column that was not there before is learned as if it had been there from the first row on, with
all cells missing. So the rows are needed again, and the learner must have kept them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.core.registry import name_of
from mixfold.core.rows import Array, Rows, join
from mixfold.estimators._frames import is_frame
from mixfold.estimators._learned import Learned
from mixfold.learners.reservoir_em import ReservoirEM
from mixfold.sources.array_source import ArraySource

AUTO, ERROR, IGNORE, LEARN = NEW_COLUMNS = ("auto", "error", "ignore", "learn")
REMEDY = "name the columns that may come with columns=[...]"
MOST_IGNORED = 100  # names of ignored columns that are kept, so that each is warned of once


def names_in(data: Any) -> list[str]:
    """The names of the columns of a row or of a table; none of other data."""
    if isinstance(data, dict):
        return list(data)
    columns = getattr(data, "columns", ()) if is_frame(data) else ()
    names = getattr(data, "column_names", None)  # of an Arrow table, whose columns are arrays
    return [name for name in names or columns if isinstance(name, str)]


def why_not_learned(learned: Learned, typed: bool, labelled: bool, missing: bool) -> str:
    """What new columns would need, if they cannot be learned; empty if they can.

    `typed` models have families for each column, and `missing` cells may be integrated out or not.
    """
    if typed or labelled or not missing:
        return "one family for all columns, missing='marginalize' and no labels"
    if _rows_so_far(learned) is None:
        any_more = " any more" if isinstance(learned.learner, ReservoirEM) else ""
        return f"all rows before, which {name_of(learned.learner)} does not keep{any_more}"
    return ""


def with_new_columns(learned: Learned, names: list[str], new: list[str]) -> ArraySource:
    """All rows so far, with missing cells in the new columns."""
    rows = _rows_so_far(learned)
    assert rows is not None
    x: Array = np.asarray(rows.x, dtype=np.float64)
    gaps = np.full((len(x), len(new)), np.nan)
    return ArraySource(np.hstack([x, gaps]), rows.weight, [*names, *new])


def _rows_so_far(learned: Learned) -> Rows | None:
    """The rows of the stream, if all are kept."""
    state = learned.stream.state
    if state is None:
        return learned.stream.waiting
    if not isinstance(learned.learner, ReservoirEM) or not learned.streaming:
        return None
    whole = state.before is None and state.statistics is None and state.kept.below == 1.0
    return join(state.kept.parts()) if whole and len(state.kept) == learned.n_rows else None
