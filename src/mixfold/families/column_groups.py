"""Factors of a product whose families are the same, as one family of several columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from mixfold.core.family import Family
from mixfold.core.independent_columns import (
    SeparableColumns,
    block_of_column,
    separable,
    split_columns,
)
from mixfold.core.rows import Array
from mixfold.core.statistics import Block, Blocks
from mixfold.core.value import value


class Group(NamedTuple):
    """The family of all columns of some factors, and which columns and factors these are.

    `sums` are the columns of the group in the table of sums, and `blocks` its blocks. `divisible`
    is the family if its columns are independent.
    """

    family: Family
    places: list[int]
    members: list[int]
    sums: slice
    blocks: slice
    divisible: SeparableColumns[Any] | None

    def join(self, parts: Sequence[Any]) -> Any:
        """The parameters of the group, from those of all factors."""
        if len(self.members) == 1:
            return parts[self.members[0]]
        assert self.divisible is not None
        return self.divisible.join_columns([parts[i] for i in self.members])

    def split(self, params: Any) -> list[Any]:
        """The parameters of the factors, from those of the group."""
        return [params] if len(self.members) == 1 else split_columns(params)

    def to_blocks(self, params: Any, table: Array, weights: Array, means: Array) -> Blocks:
        """The blocks, from the table of all sums, their weights and the sums divided by these."""
        if self.divisible is None:
            return self.family.to_blocks(params, table[:, self.sums])
        first, last = self.sums.start, self.sums.stop
        missing = self.family.accepts_missing
        weight = weights[:, first + 1 : last] if missing else weights[:, first].copy()
        return self.divisible.blocks_of_means(params, weight, means[:, first + 1 : last])


@value
class ProductParams:
    """The parameters of every factor."""

    parts: tuple[Any, ...]

    def joined(self, groups: tuple[Group, ...]) -> list[Any]:
        """The parameters of groups of factors; they are kept for the next call."""
        if not self.is_joined(groups):
            self._keep(groups, [group.join(self.parts) for group in groups])
        found: list[Any] = vars(self)["_joined"][1]
        return found

    def is_joined(self, groups: tuple[Group, ...]) -> bool:
        """Whether the parameters of these groups are kept."""
        return "_joined" in vars(self) and vars(self)["_joined"][0] is groups

    def _keep(self, groups: tuple[Group, ...], joined: list[Any]) -> None:
        vars(self)["_joined"] = groups, joined

    @staticmethod
    def of_groups(groups: tuple[Group, ...], joined: list[Any]) -> ProductParams:
        """The parameters of all factors, from those of their groups."""
        found: ProductParams = object.__new__(ProductParams)
        found._keep(groups, joined)
        return found

    def __getattr__(self, name: str) -> Any:
        """The parts of groups, which are divided when they are first needed: no pass needs them."""
        if name != "parts" or "_joined" not in vars(self):
            raise AttributeError(f"parameters of a product have no {name}")
        parts: dict[int, Any] = {}
        for group, own in zip(*vars(self)["_joined"], strict=True):
            parts |= dict(zip(group.members, group.split(own), strict=True))
        vars(self)[name] = found = tuple(parts[i] for i in range(len(parts)))
        return found


def groups_of(factors: Iterable[tuple[Family, list[int]]]) -> tuple[Group, ...]:
    """Groups of single columns that can be joined; every other factor is a group of its own."""
    together: list[list[int]] = []
    known = list(factors)
    for i in range(len(known)):
        other = next((own for own in together if _can_join(known[own[0]], known[i])), None)
        if other is None:
            together.append([i])
        else:
            other.append(i)
    found, sums, blocks = [], 1, 0
    for members in together:
        families = [known[i][0] for i in members]
        places = [place for i in members for place in known[i][1]]
        family = _joined(families) if len(members) > 1 else families[0]
        last = sums + family.n_sums(len(places))
        end = blocks + len(family.block_shapes(len(places)))
        spans = slice(sums, last), slice(blocks, end)
        found.append(Group(family, places, members, *spans, separable(family)))
        sums, blocks = last, end
    return tuple(found)


def _can_join(one: tuple[Family, list[int]], other: tuple[Family, list[int]]) -> bool:
    """Whether both are families of one column that differ in the limits of the column only."""
    if len(one[1]) > 1 or len(other[1]) > 1:
        return False
    apart = separable(one[0])
    return apart is not None and apart.join_families([other[0]]) is not None


def _joined(families: Sequence[Family]) -> Family:
    joined = cast(SeparableColumns[Any], families[0]).join_families(families[1:])
    assert joined is not None
    return joined


def weight_columns(groups: tuple[Group, ...]) -> NDArray[np.intp]:
    """Where the table of sums has the weight of every sum."""
    found = np.zeros(groups[-1].sums.stop, dtype=np.intp)
    for group in groups:
        found[group.sums] = group.sums.start
        if group.divisible is not None and group.family.accepts_missing:
            columns = group.divisible.columns_of_statistics(len(group.places))
            found[group.sums][1:] += 1 + columns
    return found


def divided_blocks(groups: tuple[Group, ...], blocks: Blocks) -> list[Blocks]:
    """The blocks of every factor, from those of groups."""
    found: dict[int, Blocks] = {}
    for group in groups:
        own, n = blocks[group.blocks], len(group.places)
        if len(group.members) == 1:
            found[group.members[0]] = own
            continue
        assert group.divisible is not None
        columns = group.divisible.columns_of_statistics(n)
        columns = columns[n:] if group.family.accepts_missing else columns
        for j, i in enumerate(group.members):
            found[i] = tuple(block_of_column(block, columns, j) for block in own)
    return [found[i] for i in range(len(found))]


def joined_blocks(groups: tuple[Group, ...], parts: Sequence[Blocks]) -> Blocks:
    """The blocks of groups, from those of every factor."""
    found: list[Block] = []
    for group in groups:
        own, n = [parts[i] for i in group.members], len(group.places)
        if len(own) == 1:
            found += own[0]
            continue
        assert group.divisible is not None
        columns = group.divisible.columns_of_statistics(n)
        columns = columns[n:] if group.family.accepts_missing else columns
        found += [_joined_block(blocks, columns) for blocks in zip(*own, strict=True)]
    return tuple(found)


def _joined_block(parts: Sequence[Block], columns: NDArray[np.intp]) -> Block:
    """The block of several columns, whose statistics are of these `columns`."""
    m = sum(part.mean.shape[1] for part in parts)
    weight = parts[0].weight
    if weight.ndim == 2:
        weight = _in_order([part.weight for part in parts], columns[:m])
    mean = _in_order([part.mean for part in parts], columns[:m])
    return Block(weight, mean, _in_order([part.scatter for part in parts], columns[m:]))


def _in_order(parts: Sequence[Array], columns: NDArray[np.intp]) -> Array:
    """Numbers of every column, (K, n) each, where they are among those of all."""
    found = np.empty((len(parts[0]), len(columns)))
    for j, part in enumerate(parts):
        found[:, columns == j] = part
    return found
