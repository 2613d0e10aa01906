"""Iterables whose items arrive one after the other, such as consumers of Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mixfold.core.errors import InvalidInputError
from mixfold.core.growing_source import Arrived, GrowingPosition, GrowingSource
from mixfold.sources._background_reader import BackgroundReader
from mixfold.sources._row_formats import Records
from mixfold.sources.opening import as_table, is_table
from mixfold.sources.table import check_names

MOST_WAITING = 10_000  # items


class Item(NamedTuple):
    """An item, so that None can be one too."""

    content: Any


class GrowingIterable(GrowingSource):
    """Dicts of columns, rows of numbers, and tables or arrays of several rows.

    A thread takes items, at most 10,000 more than are used. `records` is the format of dicts.
    """

    has_positions = False

    def __init__(
        self,
        items: Iterable[Any],
        columns: Sequence[str] | None = None,
        numbers: bool = True,
        name: str = "the iterable",
    ) -> None:
        self.name, self._columns = name, columns
        self._records = Records(name, columns, numbers)
        rest = iter(items)
        end = object()

        def read() -> Item | None:
            found = next(rest, end)
            return None if found is end else Item(found)

        self._reader = BackgroundReader(read, MOST_WAITING)
        self._rows = 0
        self._kept: Any = None

    def poll(self, most: int) -> Arrived | None:
        first = self._next()
        if first is None:
            return None
        if not isinstance(first.content, dict):
            return self._arrived(self._block(first.content))
        found = [first.content]
        while len(found) < most and (item := self._next()) is not None:
            if not isinstance(item.content, dict):
                self._kept = item
                break
            found.append(item.content)
        before = self._rows
        table, bad = self._records.read(found, lambda i: f"item {before + i + 1:,}")
        self._rows += len(found)
        return Arrived(table, bad)

    def _next(self) -> Item | None:
        kept, self._kept = self._kept, None
        return kept if kept is not None else self._reader.take()

    def _arrived(self, block: Any) -> Arrived:
        self._rows += len(block)
        return Arrived(block)

    def _block(self, item: Any) -> Any:
        """An item as a table or an array of rows."""
        if is_table(item):
            table = as_table(item)
            if self._columns is None:
                return table
            check_names(table.schema.names, self._columns, self.name)
            return table.select(list(self._columns))
        try:
            return np.atleast_2d(np.asarray(item, dtype=np.float64))
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"an item of {self.name} is a {type(item).__name__}, which is no row ({error}): "
                "give dicts of columns, rows of numbers, tables or arrays"
            ) from None

    @property
    def position(self) -> GrowingPosition:
        types = self._records.types
        return GrowingPosition([*types], [str(kind) for kind in types.values()], self._rows, [])

    def seek(self, position: GrowingPosition) -> None:
        self._rows = position.rows
        if position.columns:
            self._records.know(position.columns, position.types)

    @property
    def ended(self) -> bool:
        return self._kept is None and self._reader.ended

    def close(self) -> None:
        self._reader.close()
