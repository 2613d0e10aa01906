"""Families whose columns are independent given the component."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol, Self, TypeVar, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mixfold.core.capability import Capability
from mixfold.core.family import Family
from mixfold.core.params import ParamsT
from mixfold.core.rows import Array
from mixfold.core.statistics import Block, Blocks
from mixfold.core.value import equal, field_names, replace

T = TypeVar("T")


@runtime_checkable
class SeparableColumns(Capability, Protocol[ParamsT]):
    """A family that can be divided into families of single columns."""

    @property
    def columns_are_independent(self) -> bool:
        """Whether this form of the family can be divided."""

    def of_columns(self, chosen: Sequence[int]) -> Family:
        """The family of some of the columns, with the limits that these have."""

    def take_columns(self, params: ParamsT, chosen: Sequence[int]) -> ParamsT:
        """The parameters of some of the columns."""

    def join_columns(self, parts: Sequence[ParamsT]) -> ParamsT:
        """The parameters of all columns, from those of parts that follow one another."""

    def join_families(self, others: Sequence[Family]) -> Family | None:
        """The family of the own columns and then those of others; None if their settings differ."""

    def columns_of_statistics(self, d: int) -> NDArray[np.intp]:
        """Which of d columns the sums in a row of the table are of, without the first sum."""

    def blocks_of_means(self, params: ParamsT, weight: Array, means: Array) -> Blocks:
        """Blocks of sums that were divided by their weights, (K,) or one for every sum.

        `means` is the table without its first column.
        """


class IndependentColumns:
    """What families have whose parameters are arrays (K, d, ...) with an entry for every column.

    The density of a row is the product of those of its columns, and nothing is shared by columns.
    Every statistic is there for all columns before the next one is.
    """

    columns_are_independent = True

    def of_columns(self, chosen: Sequence[int]) -> Self:
        """The family itself, whose settings are those of any column."""
        return self

    def take_columns(self, params: Any, chosen: Sequence[int]) -> Any:
        """The parameters of some of the columns."""
        return take_columns(params, chosen)

    def join_columns(self, parts: Sequence[Any]) -> Any:
        """The parameters of all columns, from those of parts that follow one another."""
        return join_columns(parts)

    def join_families(self, others: Sequence[Family]) -> Self | None:
        """The family itself, if the others are the same."""
        return self if all(equal(self, other) for other in others) else None

    def columns_of_statistics(self, d: int) -> NDArray[np.intp]:
        """The columns one after the other, as often as there are statistics of one."""
        return in_turn(d, cast(Family, self).n_sums(1) - 1)


def take_columns(thing: T, chosen: Sequence[int]) -> T:
    """A value whose arrays are (K, d, ...), of some of the columns."""
    parts = {n: np.ascontiguousarray(getattr(thing, n)[:, chosen]) for n in field_names(thing)}
    return replace(thing, **parts)


def put_columns(thing: T, chosen: Sequence[int], part: T) -> T:
    """The value with some of its columns replaced by those of `part`."""
    arrays = {n: getattr(thing, n).copy() for n in field_names(thing)}
    for name, array in arrays.items():
        array[:, chosen] = getattr(part, name)
    return replace(thing, **arrays)


def join_columns(parts: Sequence[T]) -> T:
    """A value of all columns, from those of parts that follow one another."""
    names = field_names(parts[0])
    arrays = {n: np.concatenate([getattr(p, n) for p in parts], axis=1) for n in names}
    return replace(parts[0], **arrays)


@cache
def in_turn(d: int, times: int) -> NDArray[np.intp]:
    """The numbers of d columns one after the other, so many times."""
    found = np.tile(np.arange(d), times)
    found.setflags(write=False)
    return found


@cache
def one_by_one(d: int, times: int) -> NDArray[np.intp]:
    """The numbers of d columns, each so many times."""
    found = np.repeat(np.arange(d), times)
    found.setflags(write=False)
    return found


def split_columns(params: ParamsT) -> list[ParamsT]:
    """The parameters of every column, from arrays (K, d, ...)."""
    arrays = [
        np.ascontiguousarray(getattr(params, n).swapaxes(0, 1))[:, :, None]
        for n in field_names(params)
    ]
    return [type(params)(*parts) for parts in zip(*arrays, strict=True)]


def block_of_column(block: Block, columns: NDArray[np.intp], j: int) -> Block:
    """The block of column j; `columns` are those of the statistics of the block."""
    m = block.mean.shape[1]
    own, of_scatter = columns[:m] == j, columns[m:] == j
    weight = block.weight if block.weight.ndim == 1 else block.weight[:, own]
    return Block(weight, block.mean[:, own], block.scatter[:, of_scatter])


def as_components(params: ParamsT) -> ParamsT:
    """The parameters of K d components of one column, from arrays (K, d, ...)."""
    arrays = [getattr(params, n) for n in field_names(params)]
    return type(params)(*[a.reshape(-1, 1, *a.shape[2:]) for a in arrays])


def separable(family: Family) -> SeparableColumns | None:
    """The family, if its columns are independent."""
    if isinstance(family, SeparableColumns) and family.columns_are_independent:
        return family
    return None
