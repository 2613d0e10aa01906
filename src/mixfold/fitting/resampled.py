"""Another source's rows in random order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from mixfold.core.rows import Rows
from mixfold.core.source import Source, block_length


class Resampled(Source):
    """As many rows as the source has, drawn with or without replacement; one order per seed."""

    def __init__(
        self,
        source: Source,
        order: Literal["with-replacement", "without-replacement"],
        seed: list[int],
    ) -> None:
        self.source, self.columns = source, source.columns
        n = source.length
        assert n is not None
        rng = np.random.default_rng(seed)
        self.indices = (
            rng.integers(n, size=n) if order == "with-replacement" else rng.permutation(n)
        )

    @property
    def d(self) -> int:
        return self.source.d

    @property
    def length(self) -> int:
        return len(self.indices)

    def blocks(self, start: int = 0, length: int | None = None) -> Iterator[Rows]:
        step = length or block_length(self.d)
        for first in range(start, self.length, step):
            yield self.source.take(self.indices[first : first + step])
