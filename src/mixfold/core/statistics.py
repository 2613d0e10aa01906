"""Expected sufficient statistics of K components: one additive value for everything."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from math import isqrt
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import HIGHEST, LARGEST_SQUARE, LARGEST_SUM, check_above, check_array
from mixfold.core.limits import LIGHTEST
from mixfold.core.rows import Array
from mixfold.core.value import value

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
    return np.ascontiguousarray(delta[..., i] * delta[..., j])


def outer_full(delta: Array) -> Array:
    """delta delta' with all its products."""
    return outer_like(delta, packed_length("full", delta.shape[-1]))


class Additive(ABC):
    """What statistics of every kind can do: be added, scaled and mixed."""

    count: float

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
class Statistics(Additive):
    """Responsibility, mean and covariance of the rows each component holds.

    Kept as weighted means and covariances about those means, not as raw sums: `E[xx'] - mu mu'`
    cancels when the data lie far from zero, this form does not. Sums of statistics use the
    pairwise formula of Chan, Golub and LeVeque (1979).
    """

    weight: Array
    mean: Array
    scatter: Array
    count: float
    log_likelihood: float

    def check(self, k: int, means: int, products: int) -> None:
        """Refuse other shapes, numbers that are not finite, and negative weights."""
        check_array("weight", self.weight, (k,), 0.0)
        check_array("mean", self.mean, (k, means))
        check_array("scatter", self.scatter, (k, products), -LARGEST_SQUARE, LARGEST_SQUARE)
        check_above("count", self.count, LIGHTEST, HIGHEST)
        check_above("the sum of weight", float(self.weight.sum()), LIGHTEST)

    def __add__(self, other: Statistics) -> Statistics:
        weight = self.weight + other.weight
        share = np.divide(other.weight, weight, out=np.zeros_like(weight), where=weight != 0)
        t = share[:, None]
        delta = other.mean - self.mean
        mean = np.where(t == 1.0, other.mean, self.mean + t * delta)
        spread = t * (1.0 - t) * outer_like(delta, self.scatter.shape[1])
        scatter = (1.0 - t) * self.scatter + t * other.scatter + spread
        return Statistics(
            weight,
            mean,
            scatter,
            self.count + other.count,
            self.log_likelihood + other.log_likelihood,
        )

    def __mul__(self, factor: float) -> Statistics:
        return Statistics(
            self.weight * factor,
            self.mean,
            self.scatter,
            self.count * factor,
            self.log_likelihood * factor,
        )
