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
    """The number of second moments for d first moments.

    "factor" has the squares of all columns, and all products with the last `hidden` columns.
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
    """Row and column indices of the packing that has `length` entries for d columns.

    Observed columns come first, with their diagonal entries only; latent columns have whole rows.
    "diag" is the packing without latent columns, "full" that in which all but the first are.
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
    """Operations of all kinds of statistics: addition, scaling and mixing."""

    count: float
    log_likelihood: float

    @abstractmethod
    def __add__(self, other: Self) -> Self:
        """Statistics of both sets of rows together."""

    @abstractmethod
    def __mul__(self, factor: float) -> Self:
        """Statistics with all weights multiplied by `factor`."""

    def normalized(self) -> Self:
        """Per unit of row weight, so that `count` is 1."""
        return self * (1.0 / self.count)

    def mix(self, other: Self, gamma: float) -> Self:
        """(1 - gamma) self + gamma other: the step of stochastic approximation."""
        return self * (1.0 - gamma) + other * gamma


@value
class Totals(Additive):
    """Statistics as plain sums, for models in which no cancellation occurs."""

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
    """The number of means and of central second moments per component in a block.

    With `by_cell` every mean has its own weight, since cells of a row may be missing.
    """

    means: int
    products: int = 0
    by_cell: bool = False


@value
class Block:
    """Weights, means and scatters of K components, which can be added.

    Blocks hold weighted means and covariances about these means, not raw sums: `E[xx'] - mu mu'`
    loses digits when the data are far from zero, this form does not. Sums of blocks use the
    pairwise formula of Chan, Golub and LeVeque (1979).

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
        weight = np.maximum(weight, 0.0)  # differences of statistics may leave the domain
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

    def pooled(self, values: Array) -> Array:
        """Means over the components (m,) of values (K, m), which belong to the first m means.

        Components count equally where none has any weight.
        """
        weight = self.weight
        if weight.ndim == 1:
            return np.asarray((weight / np.add.reduce(weight)) @ values)
        weight = weight[:, : values.shape[1]]
        total = weight.sum(axis=0)
        if not total.all():
            weight = np.where(total > 0.0, weight, 1.0)
            total = weight.sum(axis=0)
        return np.asarray((weight * values).sum(axis=0) / total)

    def together(self) -> Block:
        """The rows of all components as those of a single one."""
        mean, scatter = self.pooled(self.mean)[None], self.scatter[:0]
        if self.scatter.shape[1]:
            away = outer_like(self.mean - mean, self.scatter.shape[1])
            scatter = self.pooled(self.scatter + away)
        return Block(self.weight.sum(axis=0, keepdims=True), mean, scatter.reshape(1, -1))

    def __add__(self, other: Block) -> Block:
        return self._sum(self.weight, other, other.weight)

    def mix(self, other: Block, gamma: float) -> Block:
        """(1 - gamma) self + gamma other."""
        return self._sum(self.weight * (1.0 - gamma), other, other.weight * gamma)

    def _sum(self, own: Array, other: Block, others: Array) -> Block:
        """The sum of both blocks, with these weights."""
        weight = own + others
        share = np.divide(others, weight, out=np.zeros_like(weight), where=weight != 0)
        t = _wide(share)
        moved = self.moved(weight, other, t)
        return Block(weight, np.where(t == 1.0, other.mean, moved.mean), moved.scatter)

    def __mul__(self, factor: float) -> Block:
        return Block(self.weight * factor, self.mean, self.scatter)

    def moved(self, weight: Array, other: Block, t: Array) -> Block:
        """A block with another weight, interpolated to `other` with t of shape (K, 1) or (K, m)."""
        delta, scatter = other.mean - self.mean, self.scatter
        if scatter.shape[1]:
            rest = 1.0 - t
            spread = t * rest * outer_like(delta, scatter.shape[1])
            scatter = rest * scatter + t * other.scatter + spread
        return Block(weight, self.mean + t * delta, scatter)

    def shrunk(self, whole: Block, own: Array, pull: float) -> Block:
        """Shrink the scatter towards that of all rows; `own` is the fraction that is retained.

        In a block without scatter, the means are moved by the fraction `pull` instead.
        """
        if self.scatter.shape[1]:
            keep = _wide(own)
            return replace(self, scatter=keep * self.scatter + (1.0 - keep) * whole.scatter)
        return replace(self, mean=(1.0 - pull) * self.mean + pull * whole.mean)

    def united(self) -> Block:
        """Every component with the mean and the scatter of all together."""
        mean = self.pooled(self.mean)
        spread = self.scatter + outer_like(self.mean - mean, self.scatter.shape[1])
        scatter = self.pooled(spread) if spread.shape[1] else spread[0]
        k = len(self.mean)
        return replace(self, mean=np.tile(mean, (k, 1)), scatter=np.tile(scatter, (k, 1)))

    def with_gaps_from(self, other: Block) -> Block:
        """Replace the means and scatters of components without weight by those of `other`."""
        there = _wide(self.weight > 0)
        mean, scatter = np.where(there, self.mean, other.mean), self.scatter
        if scatter.shape[1]:
            scatter = np.where(there, scatter, other.scatter)
        return Block(self.weight, mean, scatter)


Blocks = tuple[Block, ...]


def _wide(weight: NDArray[G]) -> NDArray[G]:
    """The weights with the shape that multiplies means: (K, 1) or (K, m)."""
    return weight if weight.ndim == 2 else weight[:, None]


def reciprocal(weight: Array) -> Array:
    """1 / weight, and zero where there is none."""
    return np.divide(1.0, weight, out=np.zeros(weight.shape), where=weight > 0)


@value
class Statistics(Additive):
    """Total responsibilities (K,) of the components, and the blocks of the family."""

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
