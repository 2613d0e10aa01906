"""Sums over stretches of rows, of a stream whose length is not known."""

from __future__ import annotations

import numpy as np

from mixfold.core.rows import Array

MOST = 64  # stretches at most; there are at least half as many, if there are as many rows


class RowBins:
    """Sums of numbers of rows over stretches of equal length, in the order of the rows.

    The length of a stretch is doubled whenever there would be too many of them.
    """

    def __init__(self, width: int) -> None:
        self.length = 1
        self.rows = 0
        self._sums = np.zeros((0, width))

    def update(self, values: Array) -> None:
        """Add rows (n, width)."""
        end = self.rows + len(values)
        while end > MOST * self.length:
            self._merge_pairs()
        number = -(-end // self.length)
        more = np.zeros((number - len(self._sums), self._sums.shape[1]))
        self._sums = np.concatenate([self._sums, more])
        first = self.rows // self.length
        starts = np.arange(first, number) * self.length - self.rows
        self._sums[first:number] += np.add.reduceat(values, np.maximum(starts, 0), axis=0)
        self.rows = end

    def _merge_pairs(self) -> None:
        odd = np.zeros((len(self._sums) % 2, self._sums.shape[1]))
        whole = np.concatenate([self._sums, odd])
        self._sums = whole[::2] + whole[1::2]
        self.length *= 2

    def found(self, least: int = 1) -> tuple[Array, Array]:
        """The numbers of rows (m,) and the sums (m, width) of stretches of at least `least` rows.

        A shorter rest at the end is added to the last stretch.
        """
        while self.length < least and len(self._sums) > 1:
            self._merge_pairs()
        counts = np.full(len(self._sums), float(self.length))
        counts[-1] -= self.length * len(self._sums) - self.rows
        sums = self._sums.copy()
        if len(counts) > 1 and counts[-1] < self.length / 2:
            counts[-2] += counts[-1]
            sums[-2] += sums[-1]
            counts, sums = counts[:-1], sums[:-1]
        return counts, sums
