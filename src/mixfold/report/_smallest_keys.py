"""The rows with the smallest keys of a stream, in bounded memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixfold.core.rows import Array


class SmallestKeys:
    """Keeps the rows with the `most` smallest keys, whatever the blocks in which they come.

    Keys that are random numbers give a uniform sample, and log densities the strangest rows.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._bound = np.inf
        self._waiting: list[tuple[NDArray[np.generic], ...]] = []
        self._n = 0

    def update(self, keys: Array, *arrays: NDArray[np.generic]) -> None:
        """Add rows: their keys, and arrays with an entry for each row."""
        chosen = np.flatnonzero(keys < self._bound)
        if not len(chosen):
            return
        if len(chosen) > self.most:
            chosen = np.sort(chosen[np.argsort(keys[chosen], kind="stable")[: self.most]])
        self._waiting.append((keys[chosen], *(array[chosen] for array in arrays)))
        self._n += len(chosen)
        if self._n > 2 * self.most:
            self._shrink()

    def _shrink(self) -> None:
        parts = [np.concatenate(part) for part in zip(*self._waiting, strict=True)]
        kept = np.sort(np.argsort(parts[0], kind="stable")[: self.most])
        self._waiting = [tuple(part[kept] for part in parts)]
        self._n = len(kept)
        if self._n == self.most:
            self._bound = float(self._waiting[0][0].max())

    def found(self) -> tuple[NDArray[np.generic], ...]:
        """The keys and the arrays of the rows that were kept, in the order of the stream."""
        self._shrink()
        return self._waiting[0]
