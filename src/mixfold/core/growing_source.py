"""The base class of sources whose rows arrive while they are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mixfold.core.checks import check_count
from mixfold.core.errors import InvalidInputError
from mixfold.core.value import value

REFUSED = ValueError, TypeError, OverflowError, RecursionError  # errors of rows, not of sources


@value
class FilePosition:
    """Where the next row of a file begins.

    `offset` counts bytes, or rows in files that are read by rows, and `line` the lines before it.
    `digest` is that of the first `head` bytes, by which a file is known again.
    """

    name: str
    offset: int
    line: int
    head: int
    digest: str


@value
class GrowingPosition:
    """Where the next row of a source begins, and the columns it had before.

    `types` are the names of their Arrow types. `files` are the files of which rows were read.
    `rows` counts the rows read, the only position of sources that have no files.
    """

    columns: list[str]
    types: list[str]
    rows: int
    files: list[FilePosition]

    def check(self) -> None:
        """Raise an error for an invalid position."""
        check_count("rows", self.rows)
        if len(self.columns) != len(self.types):
            raise InvalidInputError(
                f"it has {len(self.types)} types of {len(self.columns)} columns"
            )
        for file in self.files:
            for name in ("offset", "line", "head"):
                check_count(f"{name} of {file.name}", getattr(file, name))


@dataclass(frozen=True)
class BadRow:
    """A row that could not be read, with its place in words and the reason."""

    place: str
    reason: str


@dataclass(frozen=True)
class Arrived:
    """Rows that have arrived, as an Arrow table or an array; None if there were only bad ones.

    `notices` say in words what the reader should know, for example that a file was replaced.
    """

    rows: Any
    bad: Sequence[BadRow] = ()
    notices: Sequence[str] = ()

    @property
    def n(self) -> int:
        """The number of rows that could be read."""
        return 0 if self.rows is None else len(self.rows)


class GrowingSource(ABC):
    """Rows that arrive while they are read; `position` lies between those read and the next.

    A new source of the same name continues there with `seek`: no row is read twice or left out.
    Sources of files can do this; others continue with whatever arrives next.
    """

    name: str
    has_positions: bool = True  # whether `seek` finds the rows that come next

    @abstractmethod
    def poll(self, most: int) -> Arrived | None:
        """Up to `most` of the rows that have arrived, without waiting; None if there are none.

        A `SourceError` says that the source has changed so that it cannot be read any more.
        """

    @property
    @abstractmethod
    def position(self) -> GrowingPosition:
        """Where the next row begins."""

    @abstractmethod
    def seek(self, position: GrowingPosition) -> None:
        """Continue from a position."""

    @property
    def ended(self) -> bool:
        """Whether no more rows can arrive."""
        return False

    def waiting(self) -> str | None:
        """What has begun to arrive but cannot be read yet, such as half a line, in words."""
        return None

    def read_rest(self) -> bool:
        """From now on read rows that wait for others; false if there is nothing to change."""
        return False

    def close(self) -> None:  # noqa: B027 - most have nothing to release
        """Release open files."""


def in_good_parts(
    items: Any, use: Callable[[Any], None], first: int = 0
) -> Iterator[tuple[int, Exception]]:
    """Use items together or, where that fails, in halves; the bad ones, each with its error.

    `use` is called for parts in their order, and has no effect if it fails.
    """
    try:
        use(items)
    except REFUSED as error:
        if len(items) == 1:
            yield first, error
            return
    else:
        return
    half = len(items) // 2
    yield from in_good_parts(items[:half], use, first)
    yield from in_good_parts(items[half:], use, first + half)
