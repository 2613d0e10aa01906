"""A source without every Nth row, or with every Nth row only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mixfold.core.rows import Rows
from mixfold.core.source import Source


class Part(Source):
    """Rows number N-1, 2N-1, ... of a source if `held_out`, the others if not.

    `first` is the number of the source's first row, where it is a partition of another.
    """

    def __init__(
        self, source: Source, length: int, every: int, held_out: bool, first: int = 0
    ) -> None:
        self.source, self.columns = source, source.columns
        self.every, self.held_out, self.first = every, held_out, first
        self._before = self._count(first)
        self._length = self._count(first + length) - self._before

    def _count(self, n: int) -> int:
        """How many of the first n rows of the data are in this part."""
        return n // self.every if self.held_out else n - n // self.every

    @property
    def d(self) -> int:
        return self.source.d

    @property
    def length(self) -> int:
        return self._length

    @property
    def random_access(self) -> bool:
        return self.source.random_access

    @property
    def is_remote_readable(self) -> bool:
        return self.source.is_remote_readable

    def partitions(self, length: int | None = None) -> Sequence[Part]:
        parts, first = [], self.first
        for source in self.source.partitions(length):
            n = source.length
            n = sum(len(rows) for rows in source.blocks()) if n is None else n
            parts.append(Part(source, n, self.every, self.held_out, first))
            first += n
        return parts

    def _number(self, index: np.ndarray) -> np.ndarray:
        """Numbers in the source of rows of this part."""
        index = index + self._before
        if self.held_out:
            return (index + 1) * self.every - 1 - self.first
        return np.asarray(index + index // (self.every - 1)) - self.first

    def blocks(self, start: int = 0, length: int | None = None) -> Iterator[Rows]:
        first = int(self._number(np.array(start)))
        for rows in self.source.blocks(first, length):
            number = self.first + np.arange(first, first + len(rows))
            last = number % self.every == self.every - 1
            chosen = last if self.held_out else ~last
            first += len(rows)
            if chosen.any():
                yield rows.where(chosen)

    def take(self, indices: np.ndarray) -> Rows:
        return self.source.take(self._number(indices))

    def sample(self, n: int, rng: np.random.Generator) -> Rows:
        """Sample as `fit` does: random access to a source of unknown length is expensive."""
        return self.head(n) if self.source.length is None else super().sample(n, rng)
