"""Families whose blocks hold means and covariances, summed in centred coordinates."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol, TypeVar

import numpy as np

from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.rows import Array
from mixfold.core.statistics import Block, Blocks, BlockShape, outer_like, reciprocal


class HasMeans(Protocol):
    """Parameters with means of columns."""

    @property
    def means(self) -> Array:
        """(K, d)."""


MeansT = TypeVar("MeansT", bound=HasMeans)


class CentredMoments(ExponentialFamily[MeansT]):
    """Sums of first and second moments about the components' means, without cancellation.

    A family says what its centred coordinates are, which products of them it needs, and how
    moments in them become moments of the data.
    """

    def n_means(self, d: int) -> int:
        """First moments of a component: one for each column, if there is nothing else."""
        return d

    @abstractmethod
    def n_products(self, d: int) -> int:
        """Second moments of a component."""

    @abstractmethod
    def centred(self, params: MeansT, x: Array) -> Array:
        """Rows in the coordinates in which moments are summed, (K, n, m)."""

    @abstractmethod
    def products(self, weighted: Array, centred: Array) -> Array:
        """Sums of the packed products of centred rows, (K, s); `weighted` are the weighted rows."""

    @abstractmethod
    def from_centred(self, params: MeansT, mean: Array, scatter: Array) -> tuple[Array, Array]:
        """Means and scatters of components, from centred coordinates to the data's."""

    @abstractmethod
    def to_centred(self, params: MeansT, mean: Array, scatter: Array) -> tuple[Array, Array]:
        """The inverse of `from_centred`."""

    def block_shapes(self, d: int) -> tuple[BlockShape, ...]:
        return (BlockShape(self.n_means(d), self.n_products(d)),)

    def n_sums(self, d: int) -> int:
        return 1 + self.n_means(d) + self.n_products(d)

    def sums(self, params: MeansT, x: Array, responsibilities: Array) -> Array:
        centred = self.centred(params, x)
        weighted = responsibilities.T[:, :, None] * centred
        weight, first = responsibilities.sum(axis=0), weighted.sum(axis=1)
        return np.hstack([weight[:, None], first, self.products(weighted, centred)])

    def to_blocks(self, params: MeansT, table: Array) -> Blocks:
        weight = np.maximum(table[:, 0], 0.0)  # differences of statistics may leave the domain
        return self.blocks_of_means(params, weight, table[:, 1:] * reciprocal(weight)[:, None])

    def blocks_of_means(self, params: MeansT, weight: Array, means: Array) -> Blocks:
        m = self.n_means(params.means.shape[1])
        local_mean, square = means[:, :m], means[:, m:]
        local_scatter = square - outer_like(local_mean, square.shape[1])
        own = weight if weight.ndim == 1 else weight[:, :m]
        return (Block(own, *self.from_centred(params, local_mean, local_scatter)),)

    def to_sums(self, params: MeansT, blocks: Blocks) -> Array:
        (block,) = blocks
        mean, scatter = self.to_centred(params, block.mean, block.scatter)
        raw = scatter + outer_like(mean, scatter.shape[1])
        return np.asarray(block.weight[:, None] * np.hstack([np.ones((len(mean), 1)), mean, raw]))
