"""Families whose columns are independent given the component."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import numpy as np

from mixfold.core.capability import Capability
from mixfold.core.family import Family
from mixfold.core.params import ParamsT
from mixfold.core.value import field_names, replace

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


class IndependentColumns:
    """What families have whose parameters are arrays (K, d, ...) with an entry for every column.

    The density of a row is the product of those of its columns, and nothing is shared by columns.
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


def separable(family: Family) -> SeparableColumns | None:
    """The family, if its columns are independent."""
    if isinstance(family, SeparableColumns) and family.columns_are_independent:
        return family
    return None
