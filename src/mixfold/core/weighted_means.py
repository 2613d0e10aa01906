"""Families whose blocks are weighted means of statistics."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from mixfold.core.family import Family
from mixfold.core.params import ParamsT
from mixfold.core.rows import Array
from mixfold.core.statistics import Block, Blocks, BlockShape


class WeightedMeans(Family[ParamsT]):
    """One block: total responsibilities and means of p statistics of rows.

    The table of sums has the total responsibility, then the sums of the statistics.
    """

    @abstractmethod
    def n_statistics(self, d: int) -> int:
        """Number p of statistics of rows of d columns."""

    def n_sums(self, d: int) -> int:
        return 1 + self.n_statistics(d)

    def block_shapes(self, d: int) -> tuple[BlockShape, ...]:
        return (BlockShape(self.n_statistics(d)),)

    def to_blocks(self, params: ParamsT, table: Array) -> Blocks:
        return (Block.of_sums(table[:, 0], table[:, 1:]),)

    def blocks_of_means(self, params: ParamsT, weight: Array, means: Array) -> Blocks:
        """Blocks of sums that were divided by their weights, (K,) or one for every sum."""
        return (Block.of_means(weight, means),)

    def to_sums(self, params: ParamsT, blocks: Blocks) -> Array:
        (block,) = blocks
        return np.hstack([block.weight[:, None], block.sums()])
