"""Expected sufficient statistics of K components: additive blocks that families define."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from math import isqrt
from typing import Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import HIGHEST, LARGEST_SQUARE, LARGEST_SUM, check_above, check_array
from mixfold.core.errors import InvalidInputError
from mixfold.core.limits import LIGHTEST
from mixfold.core.rows import Array
from mixfold.core.value import replace, value

G = TypeVar("G", bound=np.generic)

Scatter = Literal["none", "diag", "factor", "full"]


def packed_length(scatter: Scatter, d: int, hidden: int = 0) -> int:
    """How many second moments are kept for d first moments.

    "factor" keeps the squares of all, and all products with the last `hidden` of them.
    """
    full, seen = d * (d + 1) // 2, d - hidden
    factor = full - seen * (seen - 1) // 2
    return {"none": 0, "diag": d, "factor": factor, "full": full}[scatter]


@cache
def lower_triangle(d: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Row and column numbers of the packed entries."""
    i, j = np.tril_indices(d)
    i.setflags(write=False)
    j.setflags(write=False)
    return i, j


@cache
def packed_diagonal(d: int) -> NDArray[np.intp]:
    """Numbers of the packed entries that lie on the diagonal."""
    rows = np.arange(d)
    places = rows * (rows + 3) // 2
    places.setflags(write=False)
    return places


@cache
def lower_mask(d: int) -> NDArray[np.bool_]:
    """Where a lower triangular matrix has its entries, (d, d)."""
    mask = np.tri(d, dtype=bool)
    mask.setflags(write=False)
    return mask


@cache
def packed_pairs(d: int, length: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Row and column numbers of the packing that has `length` entries for d columns.

    Those of columns that are seen come first, on the diagonal; the rows of hidden ones are whole.
    "diag" is the packing with none hidden, "full" the one with all but the first.
    """
    seen = (1 + isqrt((2 * d - 1) ** 2 - 8 * (length - d))) // 2
    hidden = np.arange(seen, d)
    i = np.concatenate([np.arange(seen), np.repeat(hidden, hidden + 1)])
    j = np.concatenate([np.arange(seen), *(np.arange(row + 1) for row in hidden)])
    i.setflags(write=False)
    j.setflags(write=False)
    return i, j


def pack(square: Array) -> Array:
    """Lower triangles of (..., d, d), row by row."""
    i, j = lower_triangle(square.shape[-1])
    # indexing may return another memory order, and products depend on it in the last bit
    return np.ascontiguousarray(square[..., i, j])


def unpack(packed: Array, d: int) -> Array:
    """Symmetric (..., d, d) from packed lower triangles."""
    i, j = lower_triangle(d)
    square = np.empty((*packed.shape[:-1], d, d))
    square[..., i, j] = packed
    square[..., j, i] = packed
    return square


def outer_like(delta: Array, length: int) -> Array:
    """delta delta' in the packing that has `length` entries for d columns."""
    d = delta.shape[-1]
    if length == 0:
        return np.empty((*delta.shape[:-1], 0))
    if length == d:
        return np.square(delta)
    i, j = packed_pairs(d, length)
    return np.asarray(delta.take(i, axis=-1) * delta.take(j, axis=-1))


def outer_full(delta: Array) -> Array:
    """delta delta' with all its products."""
    return outer_like(delta, packed_length("full", delta.shape[-1]))


class Additive(ABC):
    """What statistics of every kind can do: be added, scaled and mixed."""

    count: float
    log_likelihood: float

    @abstractmethod
    def __add__(self, other: Self) -> Self:
        """Statistics of both sets of rows together."""

    @abstractmethod
    def __mul__(self, factor: float) -> Self:
        """As if every row weighed `factor` times as much."""

    def normalized(self) -> Self:
        """Per unit of row weight, so that `count` is 1."""
        return self * (1.0 / self.count)

    def mix(self, other: Self, gamma: float) -> Self:
        """(1 - gamma) self + gamma other: the step of stochastic approximation."""
        return self * (1.0 - gamma) + other * gamma


@value
class Totals(Additive):
    """Sums that are linear in the latent variables, for models whose sums do not cancel."""

    values: Array
    count: float
    log_likelihood: float

    def check(self, length: int) -> None:
        """Refuse sums of another length, or that are not finite."""
        check_array("values", self.values, (length,), -LARGEST_SUM, LARGEST_SUM)
        check_above("count", self.count, LIGHTEST, HIGHEST)

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.values + other.values,
            self.count + other.count,
            self.log_likelihood + other.log_likelihood,
        )

    def __mul__(self, factor: float) -> Totals:
        return Totals(self.values * factor, self.count * factor, self.log_likelihood * factor)


@value
class BlockShape:
    """How many means and how many products about them a component has in a block.

    With `by_cell` every mean has a weight of its own, since cells of a row need not be observed.
    """

    means: int
    products: int = 0
    by_cell: bool = False


@value
class Block:
    """Weights, means and scatters of K components: an additive value of a family's own making.

    Kept as weighted means and covariances about those means, not as raw sums: `E[xx'] - mu mu'`
    cancels when the data lie far from zero, this form does not. Sums of blocks use the pairwise
    formula of Chan, Golub and LeVeque (1979).

    Parameters
    ----------
    weight : (K,), or (K, m) where every mean has a weight of its own
    mean : (K, m), weighted means of sufficient statistics
    scatter : (K, s), packed covariances about these means; s is 0 for families that need none
    """

    weight: Array
    mean: Array
    scatter: Array

    @staticmethod
    def of_means(weight: Array, mean: Array) -> Block:
        """A block without scatter."""
        return Block(weight, mean, np.empty((len(mean), 0)))

    @staticmethod
    def of_sums(weight: Array, sums: Array) -> Block:
        """A block without scatter, from sums of weighted rows."""
        weight = np.maximum(weight, 0.0)  # signed changes may leave the domain
        return Block.of_means(weight, sums * _wide(reciprocal(weight)))

    @property
    def shape(self) -> BlockShape:
        """The shape of each component's part."""
        return BlockShape(self.mean.shape[1], self.scatter.shape[1], self.weight.ndim == 2)

    def check(self, k: int, shape: BlockShape) -> None:
        """Refuse other shapes, numbers that are not finite, and negative weights."""
        check_array("weight", self.weight, (k, shape.means) if shape.by_cell else (k,), 0.0)
        check_array("mean", self.mean, (k, shape.means))
        check_array("scatter", self.scatter, (k, shape.products), -LARGEST_SQUARE, LARGEST_SQUARE)

    def sums(self) -> Array:
        """Weighted sums of the sufficient statistics, (K, m)."""
        return _wide(self.weight) * self.mean

    def __add__(self, other: Block) -> Block:
        return self._sum(self.weight, other, other.weight)

    def mix(self, other: Block, gamma: float) -> Block:
        """(1 - gamma) self + gamma other."""
        return self._sum(self.weight * (1.0 - gamma), other, other.weight * gamma)

    def _sum(self, own: Array, other: Block, others: Array) -> Block:
        """Of both blocks, as if they had these weights."""
        weight = own + others
        share = np.divide(others, weight, out=np.zeros_like(weight), where=weight != 0)
        t = _wide(share)
        moved = self.moved(weight, other, t)
        return Block(weight, np.where(t == 1.0, other.mean, moved.mean), moved.scatter)

    def __mul__(self, factor: float) -> Block:
        return Block(self.weight * factor, self.mean, self.scatter)

    def moved(self, weight: Array, other: Block, t: Array) -> Block:
        """With another weight, and the fraction t, (K, 1) or (K, m), of the way to `other`."""
        delta, scatter = other.mean - self.mean, self.scatter
        if scatter.shape[1]:
            rest = 1.0 - t
            spread = t * rest * outer_like(delta, scatter.shape[1])
            scatter = rest * scatter + t * other.scatter + spread
        return Block(weight, self.mean + t * delta, scatter)

    def shrunk(self, whole: Block, own: Array, pull: float) -> Block:
        """With the fraction `own` of its scatter and `1 - own` of that of a block of all rows.

        A block without scatter has its means moved the fraction `pull` of the way instead.
        """
        if self.scatter.shape[1]:
            keep = _wide(own)
            return replace(self, scatter=keep * self.scatter + (1.0 - keep) * whole.scatter)
        return replace(self, mean=(1.0 - pull) * self.mean + pull * whole.mean)

    def with_gaps_from(self, other: Block) -> Block:
        """With the means and scatters of `other` where there is no weight."""
        there = _wide(self.weight > 0)
        mean, scatter = np.where(there, self.mean, other.mean), self.scatter
        if scatter.shape[1]:
            scatter = np.where(there, scatter, other.scatter)
        return Block(self.weight, mean, scatter)


Blocks = tuple[Block, ...]


def _wide(weight: NDArray[G]) -> NDArray[G]:
    """Weights that multiply means: (K, 1) or (K, m)."""
    return weight if weight.ndim == 2 else weight[:, None]


def reciprocal(weight: Array) -> Array:
    """1 / weight, and zero where there is none."""
    return np.divide(1.0, weight, out=np.zeros_like(weight), where=weight > 0)


@value
class Statistics(Additive):
    """Total responsibilities (K,) of the components and what the family makes of their rows."""

    weight: Array
    blocks: tuple[Block, ...]
    count: float
    log_likelihood: float

    @staticmethod
    def of(blocks: Blocks, weight: Array, log_likelihood: float = 0.0) -> Statistics:
        """Statistics of rows whose weights sum to those of the components."""
        return Statistics(weight, blocks, float(weight.sum()), log_likelihood)

    def check(self, k: int, shapes: Sequence[BlockShape]) -> None:
        """Refuse other shapes, numbers that are not finite, and negative weights."""
        check_array("weight", self.weight, (k,), 0.0)
        if len(self.blocks) != len(shapes):
            raise InvalidInputError(f"there are {len(self.blocks)} blocks: {len(shapes)} needed")
        for block, shape in zip(self.blocks, shapes, strict=True):
            block.check(k, shape)
        check_above("count", self.count, LIGHTEST, HIGHEST)
        check_above("the sum of weight", float(self.weight.sum()), LIGHTEST)

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(
            self.weight + other.weight,
            tuple(a + b for a, b in zip(self.blocks, other.blocks, strict=True)),
            self.count + other.count,
            self.log_likelihood + other.log_likelihood,
        )

    def mix(self, other: Statistics, gamma: float) -> Statistics:
        rest = 1.0 - gamma
        return Statistics(
            self.weight * rest + other.weight * gamma,
            tuple([a.mix(b, gamma) for a, b in zip(self.blocks, other.blocks, strict=True)]),
            self.count * rest + other.count * gamma,
            self.log_likelihood * rest + other.log_likelihood * gamma,
        )

    def __mul__(self, factor: float) -> Statistics:
        return Statistics(
            self.weight * factor,
            tuple([block * factor for block in self.blocks]),
            self.count * factor,
            self.log_likelihood * factor,
        )
