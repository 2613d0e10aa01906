"""The columns of rows that come as dicts, fixed by the first of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import isfinite, isnan, nan
from numbers import Real
from operator import itemgetter
from typing import Any

import numpy as np

from mixfold.core.errors import InvalidInputError
from mixfold.core.limits import LARGEST
from mixfold.core.missing_cells import has_missing
from mixfold.core.rows import Array
from mixfold.estimators.mixture import Mixture
from mixfold.sources.array_source import ArraySource
from mixfold.sources.optional_arrow import arrow

Cells = Mapping[Any, Any]
FLOAT64 = np.dtype(np.float64)
FEW_ROWS = 64  # a block of at most so many is learned row by row
_PLAIN = frozenset((float, int))  # types of cells that are taken as they are


class Columns(ABC):
    """The columns of a stream: others are ignored, and those that a row lacks are missing cells."""

    def __init__(self, names: Sequence[Any]) -> None:
        self.names = tuple(names)

    @abstractmethod
    def row(self, x: Cells) -> Any:
        """A row as the methods of mixtures for single rows take it."""

    @abstractmethod
    def block(self, rows: Sequence[Any]) -> Any:
        """Such rows as data of a mixture."""

    def learn(self, mixture: Mixture, block: Any) -> None:
        """Let a mixture learn a block."""
        mixture.partial_fit(block)

    @abstractmethod
    def table(self, frame: Any) -> Any:
        """The rows of a pandas DataFrame as data of a mixture."""

    @abstractmethod
    def chosen(self, block: Any, mask: Array) -> Any:
        """Some rows of a block."""

    @abstractmethod
    def cells(self, block: Any) -> Cells:
        """The first row of data of a mixture, such as a sample."""


class NumberColumns(Columns):
    """Columns of numbers; a row is an array."""

    def __init__(self, names: Sequence[Any]) -> None:
        super().__init__(names)
        self._get = itemgetter(*names) if len(names) > 1 else None

    def row(self, x: Cells) -> Array:
        try:
            found = (x[self.names[0]],) if self._get is None else self._get(x)
            if _PLAIN.issuperset(map(type, found)) and _is_usual(found):
                return np.array(found, dtype=np.float64)
        except KeyError:
            pass
        return np.array([_number(name, x.get(name)) for name in self.names], dtype=np.float64)

    def block(self, rows: Sequence[Array]) -> Array:
        return np.array(rows, dtype=np.float64)

    def learn(self, mixture: Mixture, block: Array) -> None:
        if len(block) > FEW_ROWS or mixture.waits_for_rows or has_missing(block):
            mixture.partial_fit(ArraySource(block, None, None))
            return
        for row in block:  # which gives the same model in less time
            mixture.learn_one(row)

    def table(self, frame: Any) -> Array:
        if [*frame.columns] == [*self.names] and all(kind == FLOAT64 for kind in frame.dtypes):
            return np.ascontiguousarray(frame.to_numpy())
        found = frame.reindex(columns=list(self.names))
        if all(map(_is_real, (kind.type for kind in found.dtypes))):
            return np.asarray(found, dtype=np.float64)
        return self.block([self.row(row) for row in found.to_dict("records")])

    def chosen(self, block: Array, mask: Array) -> Array:
        return np.asarray(block[mask])

    def cells(self, block: Array) -> Cells:
        return dict(zip(self.names, block[0].tolist(), strict=True))


class MixedColumns(Columns):
    """Columns of numbers and, as text, of categories; a row is a dict."""

    def __init__(self, names: Sequence[Any], numbers: Sequence[Any]) -> None:
        super().__init__(names)
        self.numbers = frozenset(numbers)

    def row(self, x: Cells) -> dict[str, Any]:
        return {str(name): self._cell(name, x.get(name)) for name in self.names}

    def _cell(self, name: Any, cell: Any) -> float | str | None:
        if name in self.numbers:
            number = _number(name, cell)
            return None if isnan(number) else number
        return None if _is_missing(cell) else str(cell)

    def block(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        return arrow().table({str(n): [row[str(n)] for row in rows] for n in self.names})

    def table(self, frame: Any) -> Any:
        return self.block([self.row(row) for row in frame.to_dict("records")])

    def chosen(self, block: Any, mask: Array) -> Any:
        return block.filter(mask)

    def cells(self, block: Any) -> Cells:
        return dict(zip(self.names, block.to_pylist()[0].values(), strict=True))


def checked(x: Cells) -> dict[Any, Any]:
    """A copy of a row whose numbers are in range."""
    for name, cell in x.items():
        _number(name, cell)
    return dict(x)


def number_columns(rows: Sequence[Cells]) -> NumberColumns:
    """The columns that have a number in some row, and nothing else in any."""
    kinds = _kinds(rows)
    names = [name for name, found in kinds.items() if found and all(map(_is_real, found))]
    if not names:
        raise InvalidInputError(
            f"the first {len(rows)} rows have the columns {list(kinds)}, none of which has only "
            "numbers: family='auto' takes categories too"
        )
    return NumberColumns(names)


def mixed_columns(rows: Sequence[Cells]) -> MixedColumns:
    """The columns that have a value in some row."""
    kinds = {name: found for name, found in _kinds(rows).items() if found}
    numbers = [name for name, found in kinds.items() if _are_numbers(found)]
    return MixedColumns(list(kinds), numbers)


def _are_numbers(kinds: set[type]) -> bool:
    """Whether the values of a column are numbers, and not only yes and no."""
    return all(map(_is_real, kinds)) and not kinds <= {bool, np.bool_}


def _kinds(rows: Sequence[Cells]) -> dict[Any, set[type]]:
    """The types of the values of each column, whatever the order of the columns in a row."""
    kinds: dict[Any, set[type]] = {}
    for row in rows:
        for name, found in row.items():
            known = kinds.setdefault(name, set())
            if not _is_missing(found):
                known.add(type(found))
    return dict(sorted(kinds.items(), key=lambda item: (type(item[0]).__name__, str(item[0]))))


def _is_real(kind: type) -> bool:
    return issubclass(kind, Real | np.bool_)


def _is_missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and isnan(cell))


def _is_usual(numbers: tuple[float, ...]) -> bool:
    """Whether all numbers are in range; the sum shows NaN, whatever the order."""
    return isfinite(sum(numbers)) and min(numbers) > -LARGEST and max(numbers) < LARGEST


def _number(name: Any, cell: Any) -> float:
    """A cell as a number: what is not one is a missing cell."""
    if cell is None or not _is_real(type(cell)):
        return nan
    number = float(cell)
    if abs(number) >= LARGEST:
        raise InvalidInputError(f"column {name!r} is {cell!r}: numbers below {LARGEST} are needed")
    return number
