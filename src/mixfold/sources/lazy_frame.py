"""Lazy frames of polars."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from mixfold.core.rows import Rows
from mixfold.sources._file import Batches, skip_rows
from mixfold.sources.object_source import ObjectSource
from mixfold.sources.table import Codes, Selection
from mixfold.sources.unusual_columns import with_plain_columns


class LazyFrame(Batches, ObjectSource):
    """A query that polars runs again in every pass; its result is never in memory as a whole.

    The query must give the same rows in the same order every time. Versions of polars without
    `collect_batches` collect the wanted columns with their streaming engine.
    """

    def __init__(
        self, data: Any, columns: Sequence[str] | None, weight: str | None, codes: Codes | None
    ) -> None:
        self.data, self.place = data, "the lazy frame"
        schema = _table(data.head(0).collect()).schema
        self.selection = Selection(schema, columns, weight, self.place, codes)
        self.columns = self.selection.columns

    @classmethod
    def reads(cls, data: Any) -> bool:
        polars = sys.modules.get("polars")
        return polars is not None and isinstance(data, polars.LazyFrame)

    @classmethod
    def over(
        cls, data: Any, columns: Sequence[str] | None, weight: str | None, codes: Codes | None
    ) -> LazyFrame:
        return cls(data, columns, weight, codes)

    def batches(self, start: int, length: int) -> Iterator[tuple[int, Any]]:
        query = self.data.select(self.selection.wanted)
        if hasattr(query, "collect_batches"):
            frames = query.collect_batches(chunk_size=length, maintain_order=True, lazy=True)
        else:
            frames = query.collect(engine="streaming").iter_slices(length)
        yield from skip_rows(map(_table, frames), start)

    def head(self, n: int) -> Rows:
        """The first n rows, without running the rest of the query."""
        first = self.data.select(self.selection.wanted).head(n).collect()
        return self.selection.rows(_table(first), 0)


def _table(frame: Any) -> Any:
    """A frame as an Arrow table."""
    return with_plain_columns(frame).to_arrow()
