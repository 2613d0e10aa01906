"""What files of tables have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from mixfold.core.fingerprint import (
    FULL_BYTES,
    PIECE,
    Fingerprint,
    file_fingerprint,
    weight_fingerprint,
)
from mixfold.core.rows import Rows
from mixfold.core.source import Source, block_length
from mixfold.sources._reading import reading
from mixfold.sources._table import Codes, Selection


class TableFile(Source):
    """One file whose batches are read in order, starting at any row."""

    suffixes: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        path: Path,
        columns: Sequence[str] | None = None,
        weight: str | None = None,
        codes: Codes | None = None,
    ) -> None:
        self.path = path
        with reading(path):
            self.selection = Selection(self.open(), columns, weight, str(path), codes)
        self.columns = self.selection.columns

    def __reduce__(self) -> Any:
        selection = self.selection
        settings = (selection.columns, selection.weight, selection.codes)
        return type(self), (self.path.absolute(), *settings)

    def fingerprint(self, limit: int = FULL_BYTES) -> Fingerprint:
        with reading(self.path):
            whole = file_fingerprint(self.path, limit, self.tail())
        return [*whole, *weight_fingerprint(self.selection.weight)]

    def tail(self) -> int:
        """Bytes at the end of the file that tell most about it."""
        return PIECE

    @property
    def travels(self) -> bool:
        return True

    @property
    def d(self) -> int:
        return len(self.selection.columns)

    @abstractmethod
    def open(self) -> Any:
        """Open the file and return its Arrow schema."""

    @abstractmethod
    def batches(self, start: int, length: int) -> Iterator[tuple[int, Any]]:
        """Batches of about `length` rows, each with the number of its first row.

        The first batch may begin before `start`.
        """

    def blocks(self, start: int = 0, length: int | None = None) -> Iterator[Rows]:
        with reading(self.path):
            for first, batch in self.batches(start, length or block_length(self.d)):
                skip = max(0, start - first)
                if skip < batch.num_rows:
                    yield self.selection.rows(batch.slice(skip), first + skip)


def skip_rows(batches: Iterator[Any], start: int) -> Iterator[tuple[int, Any]]:
    """Number batches from row 0, leaving out those wholly before `start`."""
    first = 0
    for batch in batches:
        if first + batch.num_rows > start and batch.num_rows:
            yield first, batch
        first += batch.num_rows
