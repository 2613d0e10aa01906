"""Rows in memory, or in a memory map."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixfold.core.rows import Array as Floats
from mixfold.core.rows import Rows
from mixfold.core.source import Source, block_length, cuts
from mixfold.sources._in_memory import InMemorySource


class ArraySource(InMemorySource):
    """A two-dimensional array of any strides; integers become float64 block by block."""

    def __init__(
        self, x: NDArray[Any], weight: Floats | None = None, columns: Sequence[str] | None = None
    ) -> None:
        self.x, self.weight, self.columns = x, weight, columns

    @property
    def in_memory(self) -> bool:  # type: ignore[override]
        """Whether blocks are views: integers and foreign byte orders are converted."""
        return bool(self.dtype == self.x.dtype)

    def blocks(self, start: int = 0, length: int | None = None) -> Iterator[Rows]:
        step = length or block_length(self.d)
        for first in range(start, self.length, step):
            last = min(first + step, self.length)
            weight = None if self.weight is None else self.weight[first:last]
            yield Rows(as_floats(self.x[first:last]), weight)

    def partitions(self, length: int | None = None) -> Sequence[Source]:
        step = length or self.part_length()
        spans = cuts(range(0, max(self.length, 1), step), self.length, step)
        return [self.part(start, stop) for start, stop in spans]

    def part(self, start: int, stop: int) -> ArraySource:
        """Rows start..stop-1."""
        weight = None if self.weight is None else self.weight[start:stop]
        return ArraySource(self.x[start:stop], weight, self.columns)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the blocks."""
        return as_floats(self.x[:0]).dtype

    def whole(self) -> Rows:
        """All rows as one block."""
        return Rows(as_floats(self.x), self.weight)

    def take(self, indices: np.ndarray) -> Rows:
        weight = None if self.weight is None else self.weight[indices]
        return Rows(as_floats(self.x[indices]), weight)


def as_floats(x: NDArray[Any]) -> NDArray[Any]:
    """The same numbers as float32 or float64, in native byte order."""
    if x.dtype in (np.float32, np.float64) and x.dtype.isnative:
        return np.asarray(x)
    return np.asarray(x, dtype=np.float32 if x.dtype.kind == "f" and x.itemsize < 8 else np.float64)
