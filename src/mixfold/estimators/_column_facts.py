"""What the columns of a table hold: numbers, yes and no, categories or dates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixfold.core.arrays import as_array
from mixfold.core.engine import engine_holding
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.core.source import Source
from mixfold.estimators._edge import check_table_shaped, is_source
from mixfold.estimators._frames import check_column_list, is_frame, name_the_column
from mixfold.sources.dates import is_temporal
from mixfold.sources.opening import as_table, open_source
from mixfold.sources.optional_arrow import arrow
from mixfold.sources.table import Codes, is_numeric

SAMPLE = 10_000  # rows from which families are chosen
MOST_LEVELS = 1000
DATES = "dates"
FEW_VALUES = 10  # numbers, up to which their probabilities are estimated one by one


@dataclass(frozen=True)
class ColumnFacts:
    """A column's name, what it holds, its observed values in a sample, and its levels if coded.

    `declared` are the levels that are known without the rows, and `kind` is the name of the Arrow
    type. `cells` are those of numbers in the rows of the sample, of which some may be missing.
    """

    name: str | int
    holds: str
    values: Array
    levels: tuple[Any, ...] | None = None
    declared: tuple[Any, ...] = ()
    kind: str = ""
    cells: Array | None = None

    @property
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
    rare = _rare_values(data, source, rows, codes)
    return [_facts(n, x, codes, rare.get(n)) for n, x in zip(source.columns, rows.T, strict=True)]


def _facts_of_partitions(
    data: Any, columns: Sequence[str] | None, weight: Any
) -> list[ColumnFacts]:
    """Facts from a sample of all partitions, and the levels that any of them has."""
    engine = engine_holding(data)
    assert engine is not None
    named = weight if isinstance(weight, str) else None
    if not hasattr(data, "columns"):
        return _facts_of_array(_sample(engine.open(data, columns, named)))
    codes = Codes(missing=True, dates=True)
    names = open_source(engine.typed_table(data), columns, named, codes).columns or []
    for name in codes.values:
        codes.codes(name, engine.distinct_values(data, name, MOST_LEVELS + 1))
    known = Codes(known=codes.values, missing=True, dates=True)
    rows = _sample(engine.open(data, names, named, known))
    few = _columns_of_few_values(names, rows, codes)
    found = {name: engine.distinct_values(data, name, MOST_LEVELS) for name in few}
    rare = {name: np.array(values.to_pylist(), dtype=np.float64) for name, values in found.items()}
    return [_facts(n, x, codes, rare.get(n)) for n, x in zip(names, rows.T, strict=True)]


def _sample(source: Source) -> Array:
    return source.sample(SAMPLE, np.random.default_rng(0)).x.astype(np.float64)


def _read_all_levels(data: Any, source: Source, codes: Codes) -> None:
    """Read the columns that are coded to the end, so that all of their levels are known."""
    coded = [name for name in source.columns or () if name in codes.values]
    if coded and source.rereadable and (source.length is None or source.length > SAMPLE):
        for _ in open_source(data, coded, None, codes).blocks():
            pass


def _columns_of_few_values(names: Sequence[str], rows: Array, codes: Codes) -> list[str]:
    """The columns of numbers that have few different ones in a sample."""
    pairs = zip(names, rows.T, strict=True)
    few = [name for name, x in pairs if len(np.unique(x[~np.isnan(x)])) <= FEW_VALUES]
    return [name for name in few if name not in codes.values and is_numeric(codes.types[name])]


def _rare_values(data: Any, source: Source, rows: Array, codes: Codes) -> dict[str, Array]:
    """Different values of all rows, of the columns that have few in the sample.

    They are read to the end if the sample is not all, since each may become a level.
    """
    if source.length is not None and source.length <= SAMPLE:
        return {}
    names = _columns_of_few_values(source.columns or (), rows, codes)
    if not names:
        return {}
    found = {name: np.empty(0) for name in names}
    for block in open_source(data, names, None, codes).blocks():
        for name, x in zip(names, block.x.T, strict=True):
            if len(found[name]) <= FEW_VALUES:
                found[name] = np.union1d(found[name], x[~np.isnan(x)])[: FEW_VALUES + 1]
    return found


def _facts_of_array(x: Array) -> list[ColumnFacts]:
    if x.ndim != 2:
        raise InvalidInputError(f"X has shape {x.shape}: rows and columns are needed")
    return [
        ColumnFacts(j, "numbers", _observed(j, column), cells=column)
        for j, column in enumerate(x.T)
    ]


def _observed(name: Any, column: Array) -> Array:
    values = column[np.isfinite(column)]  # infinite values are refused later, with their place
    if not len(column):
        raise InvalidInputError("the data have no rows: at least one is needed")
    if not len(values):
        raise InvalidInputError(
            f"column {name!r} has no values in {len(column):,} rows: leave it out with "
            "columns=[...] (--columns)"
        )
    return values


def _facts(name: str, column: Array, codes: Codes, rare: Array | None = None) -> ColumnFacts:
    """The facts of a column, from a sample and from values that the sample may lack."""
    kind, values = codes.types[name], _observed(name, column)
    if rare is not None:
        values = np.concatenate([values, np.setdiff1d(rare, values)])
    if name in codes.values:
        declared = codes.declared.get(name, ())
        levels = sorted_levels({*codes.values[name], *declared})
        if len(levels) > MOST_LEVELS:
            raise InvalidInputError(
                f"column {name!r} has {len(levels):,} different values that are not numbers, as "
                "names and keys of rows have: leave it out with columns=[...] (--columns)"
            )
        return ColumnFacts(name, "categories", values, levels, tuple(declared))
    if arrow().types.is_boolean(kind):
        return ColumnFacts(name, "yes and no", values)
    holds = DATES if is_temporal(kind) else "numbers"
    return ColumnFacts(name, holds, values, kind=str(kind), cells=column)


def sorted_levels(values: Iterable[Any]) -> tuple[Any, ...]:
    """Levels in an order that does not depend on that of the rows."""
    return tuple(sorted(values, key=lambda value: (type(value).__name__, value)))


def plain_number(level: Any) -> Any:
    """A level; if it is a whole number, as an integer."""
    return int(level) if isinstance(level, float) and level.is_integer() else level
