"""What the columns of a table hold: numbers, yes and no, categories or dates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from mixfold.core.arrays import as_array
from mixfold.core.engine import engine_holding
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.core.source import Source
from mixfold.estimators._edge import check_table_shaped, is_source
from mixfold.estimators._frames import check_column_list, is_frame, name_the_column
from mixfold.sources.opening import as_table, open_source
from mixfold.sources.table import Codes, arrow, is_temporal

SAMPLE = 10_000  # rows from which families are chosen
MOST_LEVELS = 1000


@dataclass(frozen=True)
class ColumnFacts:
    """A column's name, what it holds, its cells in a sample of rows, and its levels if coded."""

    name: str | int
    holds: str
    cells: Array
    levels: tuple[Any, ...] | None = None

    @cached_property
    def values(self) -> Array:
        """The observed cells; infinite ones are refused later, with their place."""
        return self.cells[np.isfinite(self.cells)]

    @cached_property
    def distinct(self) -> Array:
        """The different values in the sample."""
        return np.unique(self.values)

    @property
    def whole(self) -> bool:
        """Whether all values are whole numbers."""
        return bool((self.values == self.values.round()).all())


def column_facts(data: Any, columns: Sequence[str] | None, weight: Any) -> list[ColumnFacts]:
    """The facts of the columns of a table, or of an array, whose columns have numbers."""
    check_column_list(columns)
    check_table_shaped(data)
    if not (is_frame(data) or is_source(data)):
        with name_the_column(data):
            return _facts_of_array(np.asarray(as_array(data), dtype=np.float64))
    if engine_holding(data) is not None:
        return _facts_of_partitions(data, columns, weight)
    data = as_table(data) if is_frame(data) else data
    codes, named = Codes(missing=True, dates=True), weight if isinstance(weight, str) else None
    source = open_source(data, columns, named, codes)
    if not source.rereadable:
        raise InvalidInputError(
            "the types of columns are read before the rows, and these data can be read only once: "
            "give their blocks to partial_fit one by one, or give a list of blocks, a table or "
            "files"
        )
    if source.columns is None:
        return _facts_of_array(_sample(source))
    rows = _sample(source)
    _read_all_levels(data, source, codes)
    return [_facts(name, x, codes) for name, x in zip(source.columns, rows.T, strict=True)]


def _facts_of_partitions(
    data: Any, columns: Sequence[str] | None, weight: Any
) -> list[ColumnFacts]:
    """Types and values of the first partition that has rows, and the levels of all partitions."""
    parts = (part.compute() for part in getattr(data, "partitions", [data]))
    first = next((part for part in parts if len(part)), None)
    if first is None:
        raise InvalidInputError("the data have no rows: at least one is needed")
    found = column_facts(first, columns, weight)
    return [
        one if one.levels is None else replace(one, levels=_levels(data[one.name])) for one in found
    ]


def _levels(column: Any) -> tuple[Any, ...]:
    """The different values of a column of all partitions."""
    return sorted_levels(column.dropna().astype(object).drop_duplicates().compute().tolist())


def _sample(source: Source) -> Array:
    return source.sample(SAMPLE, np.random.default_rng(0)).x.astype(np.float64)


def _read_all_levels(data: Any, source: Source, codes: Codes) -> None:
    """Read the columns that are coded to the end, so that all of their levels are known."""
    coded = [name for name in source.columns or () if name in codes.values]
    if coded and source.rereadable and (source.length is None or source.length > SAMPLE):
        for _ in open_source(data, coded, None, codes).blocks():
            pass


def _facts_of_array(x: Array) -> list[ColumnFacts]:
    if x.ndim != 2:
        raise InvalidInputError(f"X has shape {x.shape}: rows and columns are needed")
    return [_with_values(ColumnFacts(j, "numbers", column)) for j, column in enumerate(x.T)]


def _with_values(facts: ColumnFacts) -> ColumnFacts:
    """The facts, unless nothing is observed."""
    n = len(facts.cells)
    if not n:
        raise InvalidInputError("the data have no rows: at least one is needed")
    if not len(facts.values):
        raise InvalidInputError(f"column {facts.name!r} has no values in {n} rows: leave it out")
    return facts


def _facts(name: str, column: Array, codes: Codes) -> ColumnFacts:
    kind = codes.types[name]
    if name in codes.values:
        levels = sorted_levels(codes.values[name])
        if len(levels) > MOST_LEVELS:
            raise InvalidInputError(
                f"column {name!r} has {len(levels):,} different values that are not numbers, as "
                "names and keys of rows have: leave it out with columns=[...] (--columns)"
            )
        return _with_values(ColumnFacts(name, "categories", column, levels))
    if arrow().types.is_boolean(kind):
        return _with_values(ColumnFacts(name, "yes and no", column))
    return _with_values(ColumnFacts(name, "dates" if is_temporal(kind) else "numbers", column))


def sorted_levels(values: Sequence[Any]) -> tuple[Any, ...]:
    """Levels in an order that does not depend on that of the rows."""
    return tuple(sorted(values, key=lambda value: (type(value).__name__, value)))
