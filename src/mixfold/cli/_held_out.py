"""A source without every Nth row, or with nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mixfold.core.rows import Rows
from mixfold.core.source import Source


class Part(Source):
    """Rows number N-1, 2N-1, ... of a source if `held`, the others if not."""

    def __init__(self, source: Source, length: int, every: int, held: bool) -> None:
        self.source, self.columns = source, source.columns
        self.every, self.held = every, held
        self._length = length // every if held else length - length // every

    @property
    def d(self) -> int:
        return self.source.d

    @property
    def length(self) -> int:
        return self._length

    @property
    def random_access(self) -> bool:
        return self.source.random_access

    def _number(self, index: np.ndarray) -> np.ndarray:
        """Numbers in the whole source of rows of this part."""
        if self.held:
            return (index + 1) * self.every - 1
        return np.asarray(index + index // (self.every - 1))

    def blocks(self, start: int = 0, length: int | None = None) -> Iterator[Rows]:
        first = int(self._number(np.array(start)))
        for rows in self.source.blocks(first):
            last = np.arange(first, first + len(rows)) % self.every == self.every - 1
            chosen = last if self.held else ~last
            first += len(rows)
            if chosen.any():
                weight = None if rows.weight is None else rows.weight[chosen]
                yield Rows(rows.x[chosen], weight)

    def take(self, indices: np.ndarray) -> Rows:
        return self.source.take(self._number(indices))

    def sample(self, n: int, rng: np.random.Generator) -> Rows:
        """As `fit` would: a source that does not know its length is costly to reach into."""
        return self.head(n) if self.source.length is None else super().sample(n, rng)
