"""The base class of sources of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from mixfold.core.errors import SourceError
from mixfold.core.fingerprint import FULL_BYTES, Fingerprint, rows_fingerprint
from mixfold.core.rows import Rows, join

Check = Callable[[Rows, Sequence[int]], None]
"""Refuses rows that cannot be learned; it is given their numbers too."""

SAMPLED_BLOCK = 2**14
MOST_STRETCHES = 256  # that are read for a sample
BLOCK_ELEMENTS = 2**20
PARTS = 32
FIRST_ROWS = 2**12
LEAST_PART, LARGEST_PART = 2**18, 2**24


def block_length(d: int) -> int:
    """Rows per block: a few megabytes."""
    return max(1, min(2**18, BLOCK_ELEMENTS // max(d, 1)))


def part_length(n: int, d: int) -> int:
    """Rows per partition of n rows: a thirty-second of them, within limits."""
    least, largest = (max(1, elements // max(d, 1)) for elements in (LEAST_PART, LARGEST_PART))
    return min(largest, max(least, -(-n // PARTS)))


def cuts(anchors: Sequence[int], n: int, length: int) -> list[tuple[int, int]]:
    """Divide n rows at anchors into ranges of at least `length` rows; the last may be shorter."""
    starts: list[int] = []
    for anchor in anchors:
        if not starts or anchor - starts[-1] >= length:
            starts.append(anchor)
    return list(zip(starts, [*starts[1:], n], strict=True))


def no_check(rows: Rows, numbers: Sequence[int]) -> None:
    """Accept any rows."""


def same(source: Source) -> Source:
    """Return the source; the recipe of sources that can be pickled."""
    return source


@runtime_checkable
class WholeArray(Protocol):
    """A source that can return all rows as one block of a known dtype."""

    columns: Sequence[str] | None

    @property
    def d(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[np.generic]: ...
    def whole(self) -> Rows: ...


class Source(ABC):
    """An iterable of blocks of rows with known columns, which can start at any row.

    A source of files is pickled by its paths and options, without rows or open files.
    """

    columns: Sequence[str] | None = None
    rereadable: bool = True
    engine: str | None = None  # the name of the engine whose collection it reads
    in_memory: bool = False  # whether blocks are views, so that long ones need no memory
    can_join_partitions: bool = True  # whether a worker can read several in their order

    @property
    @abstractmethod
    def d(self) -> int:
        """Number of columns."""

    @property
    def length(self) -> int | None:
        """Number of rows; None if it is not known in advance."""
        return None

    @property
    def random_access(self) -> bool:
        """Whether `take` works."""
        return False

    def resident(self) -> Rows | None:
        """All rows as one block if they are on a device, else None."""
        return None

    def anchors(self) -> Sequence[int]:
        """Numbers of rows at which reading can begin without reading those before."""
        return [0]

    @abstractmethod
    def blocks(self, start: int = 0, length: int | None = None) -> Iterator[Rows]:
        """Iterate over blocks from row `start` on; `length` is the preferred length of a block."""

    def partitions(self, length: int | None = None) -> Sequence[Source]:
        """Divide the source into partitions of about `length` rows, for workers to read.

        The number of partitions depends on the data alone.
        """
        return [self]

    @property
    def is_remote_readable(self) -> bool:
        """Whether workers in other processes can read the source."""
        return False

    def kept(self) -> AbstractContextManager[None]:
        """A context in which workers keep the rows, which are read in many passes."""
        return nullcontext()

    def recipe(self) -> tuple[Any, ...]:
        """A function and its arguments that make this source on a worker."""
        return same, self

    def part_length(self) -> int:
        """The default length of a partition."""
        return part_length(self.length or 0, self.d)

    def fingerprint(self, limit: int = FULL_BYTES) -> Fingerprint:
        """The fingerprint of the data; by default of the first rows only.

        Files are read as a whole up to `limit` bytes.
        """
        words = f"blocks of {self.d} columns whose first rows were compared"
        return rows_fingerprint(words, [self.head(FIRST_ROWS)])

    def take(self, indices: np.ndarray) -> Rows:
        """The rows with these numbers."""
        raise SourceError(f"{type(self).__name__} cannot be indexed: use sampling='stream'")

    def head(self, n: int) -> Rows:
        """The first n rows, or all if there are fewer."""
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
        """A uniform sample of n rows in their order; the first ones if rows can be read only once.

        The sample depends on the rows alone, not on how they are divided into files. At most one
        pass is read, and of files with many row groups only some of these, evenly spaced.
        """
        if not self.rereadable or (self.length is not None and self.length <= n):
            return self.head(n)
        if self.length is not None and self.random_access:
            return self.take(np.sort(rng.choice(self.length, n, replace=False)))
        return self._drawn(n, rng)

    def _drawn(self, n: int, rng: np.random.Generator) -> Rows:
        """The n rows with the smallest of random numbers, found in one pass."""
        blocks = self._some_blocks(min(SAMPLED_BLOCK, block_length(self.d)))
        return draw_rows(blocks, n, rng, self.d).rows

    def _some_blocks(self, length: int) -> Iterator[Rows]:
        """All blocks, or those of some stretches between anchors if there are many."""
        anchors = self.anchors()
        if self.length is None or len(anchors) <= MOST_STRETCHES:
            yield from self.blocks(0, length)
            return
        ends = [*anchors[1:], self.length]
        for i in (len(anchors) * part // MOST_STRETCHES for part in range(MOST_STRETCHES)):
            left = ends[i] - anchors[i]
            for rows in self.blocks(anchors[i], length):
                yield rows.cut(0, left)
                left -= len(rows)
                if left <= 0:
                    break


class Drawn(NamedTuple):
    """Rows that were drawn in their order, their random numbers, and of how many they are."""

    rows: Rows
    keys: np.ndarray
    length: int

    def smallest(self, n: int) -> Drawn:
        """The rows with the n smallest keys."""
        if len(self.keys) <= n:
            return self
        chosen = np.sort(np.argpartition(self.keys, n - 1)[:n])
        weight = self.rows.weight
        rows = Rows(self.rows.x[chosen], None if weight is None else weight[chosen])
        return Drawn(rows, self.keys[chosen], self.length)


def join_drawn(parts: Sequence[Drawn]) -> Drawn:
    """What was drawn from several parts of the data, in their order."""
    some = [part.rows for part in parts if len(part.rows)]
    keys = np.concatenate([part.keys for part in parts])
    rows = join(some) if some else parts[0].rows
    return Drawn(rows, keys, sum(part.length for part in parts))


def draw_rows(
    blocks: Iterable[Rows], n: int, rng: np.random.Generator, d: int, most: float = np.inf
) -> Drawn:
    """The n rows with the smallest of random numbers below `most`; blocks of any lengths."""
    found = [Drawn(Rows(np.empty((0, d))), np.empty(0), 0)]
    waiting = 0
    for rows in blocks:
        keys = rng.random(len(rows))
        some = keys < most
        found.append(Drawn(rows.on_host().where(some), keys[some], len(rows)))
        waiting += len(found[-1].keys)
        if waiting > 2 * n:
            found = [join_drawn(found).smallest(n)]
            most, waiting = min(most, found[0].keys.max()), n
    return join_drawn(found).smallest(n)
