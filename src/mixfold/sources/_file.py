"""Base classes of sources of Arrow record batches, and of table files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, ClassVar, Self

from mixfold.core.fingerprint import FULL_BYTES, PIECE, Fingerprint, weight_fingerprint
from mixfold.core.rows import Rows
from mixfold.core.source import Source, block_length
from mixfold.sources._reading import reading
from mixfold.sources._retries import Retries, retried
from mixfold.sources.location import Location, RemoteFile, location_fingerprint
from mixfold.sources.table import Codes, Selection, StoredColumns


class Batches(Source):
    """Record batches that are read in order, starting at any row.

    `place` is the file or, in words, the object that they come from.
    """

    place: Location | str
    selection: Selection
    in_parallel: ClassVar[bool] = False  # whether remote files are read by many requests at once

    @property
    def d(self) -> int:
        return len(self.selection.columns)

    @abstractmethod
    def batches(self, start: int, length: int) -> Iterator[tuple[int, Any]]:
        """Batches of about `length` rows, each with the number of its first row.

        The first batch may begin before `start`.
        """

    def blocks(self, start: int = 0, length: int | None = None) -> Iterator[Rows]:
        length = length or block_length(self.d)
        with reading(self.place):
            if self.in_parallel and isinstance(self.place, RemoteFile):
                yield from self._resumed_blocks(self.place, start, length)
            else:
                yield from self._blocks(start, length)

    def _blocks(self, start: int, length: int) -> Iterator[Rows]:
        for first, batch in self.batches(start, length):
            skip = max(0, start - first)
            if skip < batch.num_rows:
                yield self.selection.rows(batch.slice(skip), first + skip)

    def _resumed_blocks(self, file: RemoteFile, start: int, length: int) -> Iterator[Rows]:
        """Blocks that continue with the next row where a connection has broken."""
        retries, check = Retries(), file.change_check()
        while True:
            try:
                for rows in self._blocks(start, length):
                    start += len(rows)
                    retries.progress()
                    yield rows
                return
            except Exception as error:  # libraries for remote files can raise any error
                retries.wait(error)
                check()


class TableFile(Batches):
    """One file whose batches are read in order, starting at any row."""

    suffixes: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        path: Location,
        columns: Sequence[str] | None = None,
        weight: str | None = None,
        codes: Codes | None = None,
    ) -> None:
        self.path = self.place = path
        with reading(path):
            schema = retried(self.open) if self.in_parallel else self.open()
            self.selection = self.select(schema, columns, weight, codes)
        self.columns = self.selection.columns

    def select(
        self, schema: Any, columns: Sequence[str] | None, weight: str | None, codes: Codes | None
    ) -> Selection:
        """Select the columns of the file."""
        return Selection(schema, columns, weight, str(self.path), codes)

    def with_columns(self, names: Sequence[str]) -> Self:
        """The same file with other columns, whose values `batches` gives as they are stored."""
        found = copy(self)
        found.path = found.place = self.path  # as the user has written it
        with reading(self.path):
            found.selection = StoredColumns(found.open(), names, str(self.path))
        found.columns = found.selection.columns
        return found

    def __reduce__(self) -> Any:
        selection = self.selection
        settings = (selection.columns, selection.weight, selection.codes)
        return type(self), (self.path.absolute(), *settings)

    def fingerprint(self, limit: int = FULL_BYTES) -> Fingerprint:
        with reading(self.path):
            whole = location_fingerprint(self.path, limit, self.tail())
        return [*whole, *weight_fingerprint(self.selection.weight)]

    def tail(self) -> int:
        """The number of bytes at the end of the file that the fingerprint uses."""
        return PIECE

    @property
    def is_remote_readable(self) -> bool:
        return True

    @abstractmethod
    def open(self) -> Any:
        """Open the file and return its Arrow schema."""


def skip_rows(batches: Iterator[Any], start: int) -> Iterator[tuple[int, Any]]:
    """Number batches from row 0, leaving out those wholly before `start`."""
    first = 0
    for batch in batches:
        if first + batch.num_rows > start and batch.num_rows:
            yield first, batch
        first += batch.num_rows
