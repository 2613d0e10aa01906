"""How the cells of the user's data become numbers: missing cells, categories and dates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from typing import Any

import numpy as np

from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.rows import Array
from mixfold.estimators._frames import is_frame
from mixfold.families.product import Product
from mixfold.sources.table import Codes, arrow, days_of, is_missing

Levels = Mapping[str, tuple[Any, ...]]
DATES = (date, time, timedelta, np.datetime64, np.timedelta64)


@dataclass(frozen=True)
class Cells:
    """Whether cells may be missing, and the levels of columns whose values are coded.

    With `other`, a value that is not among the levels of its column has the code after the last.
    """

    missing: bool = False
    levels: Levels = field(default_factory=dict)
    other: bool = False
    dates: bool = False

    @property
    def codes(self) -> Codes | None:
        """The codes for reading tables; None where all cells are numbers and none is missing."""
        if not (self.missing or self.levels):
            return None
        return Codes(known=self.levels, missing=self.missing, other=self.other, dates=self.dates)

    def number(self, column: str, found: Any) -> float:
        """The number that stands for the value of a cell."""
        if is_missing(found):
            return float("nan")
        if column not in self.levels:
            return self._plain_number(column, found)
        levels = self.levels[column]
        if found in levels:
            return float(levels.index(found))
        if self.other:
            return float(len(levels))
        raise InvalidInputError(
            f"column {column!r} has {found!r}, which was not in the data of fit; known are "
            f"{', '.join(map(str, levels))}"
        )

    def _plain_number(self, column: str, found: Any) -> float:
        """The value of a cell of a column without levels."""
        if self.dates and isinstance(found, DATES):
            return days_of(found)
        try:
            return float(found)
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"column {column!r} has {found!r}, which is not a number"
            ) from None


COMPLETE = Cells()


def cells_of(family: Family, missing: bool) -> Cells:
    """How cells are read for a family."""
    if not isinstance(family, Product):
        return Cells(missing)
    found = {}
    for factor in family.factors:
        if factor.levels is not None:
            found[str(factor.columns[0])] = tuple(factor.levels)
    return Cells(missing, found, any(factor.other for factor in family.factors), dates=True)


def decoded(x: Array, names: list[str], cells: Cells, like: Any = None) -> Any:
    """Rows as a table with the values of categories.

    It is one of the library of `like`, a pandas frame with the same index, else a pandas frame if
    there is pandas, and an Arrow table otherwise.
    """
    pairs = zip(names, x.T, strict=True)
    columns = {name: _values(column, cells.levels.get(name)) for name, column in pairs}
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
    return pandas.DataFrame(columns, index=index)


def _values(column: Array, levels: tuple[Any, ...] | None) -> Any:
    """The values of a column; missing cells and other levels are None among categories.

    The mean of two levels, which is the probability of the second, becomes the more probable one.
    """
    if levels is None:
        return column
    known = [*levels, None, None]
    codes = np.rint(np.where(np.isnan(column), len(levels) + 1, column)).astype(np.intp)
    return [known[code] for code in codes.tolist()]
