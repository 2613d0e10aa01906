"""Rows of a source that are held out, and those that are not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mixfold.core.rows import Rows
from mixfold.core.source import Source

OF_HELD_OUT = 2**31 + 5  # in the seed, where candidates and samples have other numbers


class RandomPart(Source):
    """The rows whose random number is in a range if `held_out`, the others if not.

    The range has the length `fraction` and begins at `first`. A row's random number, between 0 and
    1, depends on its number and the seed alone.
    """

    def __init__(
        self, source: Source, fraction: float, seed: int, held_out: bool, first: float = 0.0
    ) -> None:
        self.source, self.columns = source, source.columns
        self.fraction, self.seed, self.held_out = fraction, seed, held_out
        self.first = first

    @property
    def d(self) -> int:
        return self.source.d

    def blocks(self, start: int = 0, length: int | None = None) -> Iterator[Rows]:
        """The blocks of a whole pass."""
        assert start == 0, "random parts are read from the first row"
        rng = np.random.default_rng([self.seed, OF_HELD_OUT])
        for rows in self.source.blocks(0, length):
            number = rng.random(len(rows)) - self.first
            chosen = ((number >= 0.0) & (number < self.fraction)) == self.held_out
            if chosen.any():
                yield rows.where(chosen)
