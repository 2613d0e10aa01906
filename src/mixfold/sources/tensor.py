"""Rows on a device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mixfold.core.arrays import to_device_of
from mixfold.core.rows import Rows
from mixfold.sources._in_memory import InMemorySource

BLOCK_ELEMENTS = 2**28


class Tensor(InMemorySource):
    """A two-dimensional float32 or float64 tensor.

    Blocks are large, and multiples of the requested length. Samples are copied to the CPU, where
    initial parameters are drawn.
    """

    def __init__(self, x: Any, weight: Any = None) -> None:
        self.x, self.weight = x, weight

    def blocks(self, start: int = 0, length: int | None = None) -> Iterator[Rows]:
        rows, least = Rows(self.x, self.weight), length or 1
        step = least * max(1, BLOCK_ELEMENTS // (least * self.d))
        for first in range(start, self.length, step):
            yield rows.cut(first, first + step)

    def resident(self) -> Rows:
        return Rows(self.x, self.weight)

    def take(self, indices: np.ndarray) -> Rows:
        """Rows by number, on the device."""
        chosen = to_device_of(self.x, indices)
        return Rows(self.x[chosen], None if self.weight is None else self.weight[chosen])

    def head(self, n: int) -> Rows:
        return Rows(self.x, self.weight).cut(0, n).on_host()

    def sample(self, n: int, rng: np.random.Generator) -> Rows:
        return super().sample(n, rng).on_host()
