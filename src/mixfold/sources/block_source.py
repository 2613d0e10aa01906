"""Blocks of rows from any iterable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Iterable as Many
from itertools import chain
from typing import Any

from mixfold.core.errors import SourceError
from mixfold.core.fingerprint import FULL_BYTES, Fingerprint, rows_fingerprint
from mixfold.core.rows import Rows, join
from mixfold.core.source import Source

Convert = Callable[[Any, Sequence[str] | None], tuple[Rows, Sequence[str] | None]]


class BlockSource(Source):
    """Any iterable of arrays or tables; an iterator can be read once only.

    Columns of later tables are selected by the names of the first one.
    """

    def __init__(self, blocks: Many[Any], convert: Convert) -> None:
        self._blocks, self._convert = blocks, convert
        self.rereadable = iter(blocks) is not blocks
        first = list(self._peek())
        if not first:
            raise SourceError("the iterable of blocks is empty: at least one row is needed")
        rows, self.columns = first[0]
        self._d = int(rows.x.shape[1])
        if not self.rereadable:
            self._rest: Iterator[Rows] = chain([rows], self._converted())

    def _peek(self) -> Iterator[tuple[Rows, Sequence[str] | None]]:
        for block in self._blocks:
            rows, names = self._convert(block, None)
            if len(rows):
                yield rows, names
                return

    def _converted(self) -> Iterator[Rows]:
        for block in self._blocks:
            rows = self._convert(block, self.columns)[0]
            if rows.x.shape[1] != self._d:
                raise SourceError(f"a block has {rows.x.shape[1]} columns, the first had {self._d}")
            yield rows

    @property
    def d(self) -> int:
        return self._d

    def blocks(self, start: int = 0, length: int | None = None) -> Iterator[Rows]:
        for rows in self._converted() if self.rereadable else self._rest:
            skip = min(start, len(rows))
            start -= skip
            if skip < len(rows):
                yield rows.cut(skip, len(rows))

    def fingerprint(self, limit: int = FULL_BYTES) -> Fingerprint:
        """The fingerprint of all rows of a list; of the first rows of other iterables."""
        if not isinstance(self._blocks, list | tuple):
            return super().fingerprint(limit)
        words = f"{len(self._blocks):,} blocks of {self.d:,} columns"
        return rows_fingerprint(words, self._converted())

    def head(self, n: int) -> Rows:
        """The first rows; those of an iterator are put back."""
        if self.rereadable:
            return super().head(n)
        kept: list[Rows] = []
        while sum(map(len, kept)) < n and (rows := next(self._rest, None)) is not None:
            kept.append(rows)
        self._rest = chain(kept, self._rest)
        return join(kept).cut(0, n)
