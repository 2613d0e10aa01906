"""How the cells of the user's data become numbers: missing cells, categories and dates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from functools import cached_property
from typing import Any

import numpy as np

from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.rows import Array
from mixfold.estimators._frames import is_frame
from mixfold.families.product import Product
from mixfold.sources.dates import days_of, from_days, is_temporal, temporal_type
from mixfold.sources.opening import as_table, is_table
from mixfold.sources.optional_arrow import arrow
from mixfold.sources.table import Codes, is_missing, may_have_dates, unseen_message
from mixfold.sources.unusual_columns import plain_cell

Levels = Mapping[str, tuple[Any, ...]]
REMEDY = (
    "name it by a categorical type, learn it with partial_fit and a learner of the EM kind, or fit "
    "with unseen='own-level' (--unseen own-level)"
)
DATES = (date, time, timedelta, np.datetime64, np.timedelta64)


@dataclass(frozen=True)
class Cells:
    """Whether cells may be missing, and the levels of columns whose values are coded.

    With `other`, a value that is not among the levels of its column has the code after the last;
    if it `grows`, such a value becomes a new level. With `dates`, dates and times are numbers of
    days, in all columns or in those that are named; `types` are the Arrow types of these, for the
    way back.
    """

    missing: bool = False
    levels: Levels = field(default_factory=dict)
    other: bool = False
    dates: bool | frozenset[str] = False
    grows: bool = False
    types: Mapping[str, str] = field(default_factory=dict)

    @property
    def typed(self) -> bool:
        """Whether some columns may have other values than numbers."""
        return bool(self.levels) or self.dates is not False

    @cached_property
    def codes(self) -> Codes | None:
        """The codes for reading tables; None where all cells are numbers and none is missing.

        They are made once, since reading adds the new levels to them.
        """
        if not (self.missing or self.levels):
            return None
        return Codes(
            known=self.levels,
            missing=self.missing,
            other=self.other,
            dates=self.dates,
            grows=self.grows,
            remedy=REMEDY,
        )

    def is_new(self, column: str, found: Any) -> bool:
        """Whether the value of a cell becomes a new level."""
        levels, found = self.levels.get(column), plain_cell(found)
        return self.grows and levels is not None and not is_missing(found) and found not in levels

    def number(self, column: str, found: Any) -> float:
        """The number that stands for the value of a cell."""
        if is_missing(found):
            return float("nan")
        if column not in self.levels:
            return self._plain_number(column, found)
        levels, found = self.levels[column], plain_cell(found)
        if found in levels:
            return float(levels.index(found))
        if self.other:
            return float(len(levels))
        raise InvalidInputError(unseen_message(column, found, levels, REMEDY))

    def _plain_number(self, column: str, found: Any) -> float:
        """The value of a cell of a column without levels."""
        if isinstance(found, DATES) and may_have_dates(self.dates, column):
            return days_of(found)
        try:
            return float(found)
        except (TypeError, ValueError):
            kind = "not a number: give one"
            if column in self.types:
                kind = "no date or time: give one, such as datetime.date or numpy.datetime64"
            raise InvalidInputError(
                f"column {column!r} has {found!r}, which is {kind}, or None if the value is not "
                "known"
            ) from None


COMPLETE = Cells()


def table_of_row(row: Mapping[str, Any], names: Iterable[str]) -> Any:
    """A table of one row."""
    pa, columns = arrow(), dict[str, Any]()
    for name in names:
        try:
            columns[name] = pa.array([plain_cell(row.get(name))], from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError):
            found = row[name]
            raise InvalidInputError(
                f"column {name!r} has {found!r}, whose type is {type(found).__name__}: give a "
                "number, a text or a date, or None if the value is not known"
            ) from None
    return pa.table(columns)


def cells_of(family: Family, missing: bool, dates: Mapping[str, str] | None = None) -> Cells:
    """How cells are read for a family.

    `dates` are the types of dates by column; if it is None, any column may have them.
    """
    if not isinstance(family, Product):
        return Cells(missing)
    found = {}
    for factor in family.factors:
        if factor.levels is not None:
            found[str(factor.columns[0])] = tuple(factor.levels)
    other = any(factor.other for factor in family.factors)
    if dates is None:
        return Cells(missing, found, other, dates=True)
    return Cells(missing, found, other, dates=frozenset(dates), types=dates)


def decoded(x: Array, names: list[str], cells: Cells, like: Any = None) -> Any:
    """Rows as a table with the values of categories, and dates of their types.

    It is one of the library of `like`, a pandas frame with the same index, else a pandas frame if
    there is pandas, and an Arrow table otherwise.
    """
    given, columns = _dates_of(like, cells.types), dict[str, Any]()
    for name, column in zip(names, x.T, strict=True):
        if name in given:
            columns[name] = _filled_dates(given[name], column)
        elif name in cells.types:
            columns[name] = from_days(column, temporal_type(cells.types[name]))
        else:
            columns[name] = _values(column, cells.levels.get(name))
    library = type(like).__module__.partition(".")[0]
    if library == "polars" and is_frame(like):
        return type(like)(columns)
    if library == "pyarrow":
        return arrow().table(columns)
    return frame_of(columns, like.index if library == "pandas" else None)


def frame_of(columns: Mapping[str, Any], index: Any = None) -> Any:
    """Columns as a pandas frame if there is pandas, and as an Arrow table otherwise."""
    try:
        import pandas
    except ImportError:
        return arrow().table(columns)
    found = {name: _for_pandas(column) for name, column in columns.items()}
    return pandas.DataFrame(found, index=index)


def _dates_of(table: Any, types: Mapping[str, str]) -> dict[str, Any]:
    """The columns of a table that are dates or times."""
    if not types or not is_table(table):
        return {}
    converted = as_table(table)
    found = {name: converted.column(name) for name in types if name in converted.schema.names}
    return {name: column for name, column in found.items() if is_temporal(column.type)}


def _filled_dates(given: Any, days: Array) -> Any:
    """Dates or times as they were given, and of the same type where they were missing."""
    given = given.combine_chunks()
    return arrow().compute.coalesce(given, from_days(days, given.type))


def _for_pandas(column: Any) -> Any:
    """A column without an index of its own."""
    return column.to_pandas().array if hasattr(column, "to_pandas") else column


def _values(column: Array, levels: tuple[Any, ...] | None) -> Any:
    """The values of a column; missing cells and other levels are None among categories.

    The mean of two levels, which is the probability of the second, becomes the more probable one.
    """
    if levels is None:
        return column
    known = [*levels, None, None]
    codes = np.rint(np.where(np.isnan(column), len(levels) + 1, column)).astype(np.intp)
    return [known[code] for code in codes.tolist()]
