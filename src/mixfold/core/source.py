"""What a source of rows is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np

from mixfold.core.errors import SourceError
from mixfold.core.fingerprint import FULL_BYTES, Fingerprint, rows_fingerprint
from mixfold.core.rows import Rows, join

Stretch = tuple[int, int]
"""The number of its first row, and how many rows it has."""

Check = Callable[[Rows, Sequence[int]], None]
"""Refuses rows that cannot be learned; it is given their numbers too."""

STRETCHES = 16
SAMPLED_BLOCK = 2**14
BLOCK_ELEMENTS = 2**20
PARTS = 32
FIRST_ROWS = 2**12
LEAST_PART, LARGEST_PART = 2**18, 2**24


def block_length(d: int) -> int:
    """Rows per block: a few megabytes."""
    return max(1, min(2**18, BLOCK_ELEMENTS // max(d, 1)))


def part_length(n: int, d: int) -> int:
    """Rows per part when n rows are to be shared out: a thirty-second, within limits."""
    least, largest = (max(1, elements // max(d, 1)) for elements in (LEAST_PART, LARGEST_PART))
    return min(largest, max(least, -(-n // PARTS)))


def cuts(anchors: Sequence[int], n: int, length: int) -> list[tuple[int, int]]:
    """Ranges of n rows, of at least `length` rows but for the last, that begin at anchors."""
    starts: list[int] = []
    for anchor in anchors:
        if not starts or anchor - starts[-1] >= length:
            starts.append(anchor)
    return list(zip(starts, [*starts[1:], n], strict=True))


def no_check(rows: Rows, numbers: Sequence[int]) -> None:
    """Any rows will do."""


def same(source: Source) -> Source:
    """A source that is its own description."""
    return source


@runtime_checkable
class WholeArray(Protocol):
    """A source that can give all of its rows as one block, of a known type."""

    columns: Sequence[str] | None

    @property
    def d(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[np.generic]: ...
    def whole(self) -> Rows: ...


class Source(ABC):
    """An iterator of row blocks that knows its columns and can start at any row.

    A source of files pickles as a description of them, without rows or open files.
    """

    columns: Sequence[str] | None = None
    rereadable: bool = True
    engine: str | None = None  # the name of the engine whose workers have the rows
    in_memory: bool = False  # whether blocks are views of memory, so that long ones cost nothing

    @property
    @abstractmethod
    def d(self) -> int:
        """Number of columns."""

    @property
    def length(self) -> int | None:
        """Number of rows, where it is known beforehand."""
        return None

    @property
    def random_access(self) -> bool:
        """Whether `take` works."""
        return False

    def resident(self) -> Rows | None:
        """All rows at once, where they lie on a device."""
        return None

    def anchors(self) -> Sequence[int]:
        """Rows at which reading can begin without reading those before."""
        return [0]

    @abstractmethod
    def blocks(self, start: int = 0, length: int | None = None) -> Iterator[Rows]:
        """The rows from number `start` on, in order; `length` is a wish for rows per block."""

    def partitions(self, length: int | None = None) -> Sequence[Source]:
        """Sources that make up this one, for workers to read; about `length` rows each.

        How many there are depends on the data alone.
        """
        return [self]

    @property
    def is_remote_readable(self) -> bool:
        """Whether workers elsewhere can read it by themselves."""
        return False

    def recipe(self) -> tuple[Any, ...]:
        """A function and its arguments that make this source where a worker is."""
        return same, self

    def part_length(self) -> int:
        """The length of a partition where none is asked for."""
        return part_length(self.length or 0, self.d)

    def fingerprint(self, limit: int = FULL_BYTES) -> Fingerprint:
        """What tells these data from others; of the first rows where no more is at hand.

        Files are read as a whole up to `limit` bytes.
        """
        words = f"blocks of {self.d} columns whose first rows were compared"
        return rows_fingerprint(words, [self.head(FIRST_ROWS)])

    def take(self, indices: np.ndarray) -> Rows:
        """Rows by number."""
        raise SourceError(f"{type(self).__name__} cannot be indexed: use sampling='stream'")

    def head(self, n: int) -> Rows:
        """The first n rows, or as many as there are."""
        return self._stretch(0, n)

    def _stretch(self, start: int, n: int) -> Rows:
        parts: list[Rows] = []
        for rows in self.blocks(start, max(n, 1)):
            parts.append(rows.cut(0, n).copy())
            n -= len(rows)
            if n <= 0:
                break
        return join(parts) if parts else Rows(np.empty((0, self.d)))

    def sample(self, n: int, rng: np.random.Generator) -> Rows:
        """About n rows spread over the source, as far as it can be reached into.

        Which they are depends on the rows alone, not on how a file or several hold them. What is
        read for them is at most one pass.
        """
        if self.length is None or self.length <= n:
            return self.head(n)
        if self.random_access:
            return self.take(np.sort(rng.choice(self.length, n, replace=False)))
        number = min(STRETCHES, n)
        ends = [n * i // number for i in range(number + 1)]
        starts = [self.length * i // number for i in range(number)]
        stretches = [(start, b - a) for start, (a, b) in zip(starts, pairwise(ends), strict=True)]
        parts = [rows for some in self._together(stretches) for rows in self._read(some)]
        return join(parts) if parts else Rows(np.empty((0, self.d)))

    def _together(self, stretches: list[Stretch]) -> list[list[Stretch]]:
        """Stretches in groups that are read in one go, since no anchor lies between them."""
        anchors = self.anchors()
        groups = groupby(stretches, key=lambda stretch: bisect_right(anchors, stretch[0]))
        return [list(group) for _, group in groups]

    def _read(self, stretches: list[Stretch]) -> Iterator[Rows]:
        """The rows of stretches, each of which begins after the one before has ended."""
        first, last = stretches[0][0], stretches[-1][0] + stretches[-1][1]
        for rows in self.blocks(first, min(SAMPLED_BLOCK, block_length(self.d))):
            for start, n in stretches:
                some = rows.cut(max(0, start - first), max(0, start + n - first))
                if len(some):
                    yield some.copy()
            first += len(rows)
            if first >= last:
                break
