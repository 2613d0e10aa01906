"""Rows of one group become one row: the units of mixed-effects models."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from mixfold.core.errors import SourceError
from mixfold.core.rows import Array as Floats
from mixfold.core.rows import Rows, join
from mixfold.core.source import Source
from mixfold.sources.array import Array

Fold = Callable[[NDArray[Any], NDArray[np.intp]], Floats]
Check = Callable[[Rows, Sequence[int]], None]
WHOLE_FLOATS = 2.0**53
KEPT_BYTES = 2**28


def no_check(rows: Rows, numbers: Sequence[int]) -> None:
    """Any rows will do."""


class Groups(NamedTuple):
    """Rows of whole groups, where each group starts, and the number of the first row."""

    rows: Rows
    starts: NDArray[np.intp]
    first: int


class Grouped(Source):
    """Another source's rows, each group of them folded into one row: a unit.

    The rows of a group are those, one after the other, that share the number in column `group`;
    a group may go on over any number of blocks, and memory is bounded by a block and the longest
    group (and eight bytes per group while the order is checked). `fold(x, starts)` turns rows
    (n, c) of m whole groups, which begin at `starts`, into units (m, d); what it makes of a group
    must not depend on the others. A row's weight is that of its group.

    Data in memory are sorted first, and their units can be indexed. Other data are read once
    beforehand: their groups are counted, their order is checked, and `check(rows, numbers)` sees
    every row with its number in the source. Units are kept if they are in memory anyway, or take
    no more than KEPT_BYTES. `label` says what stands behind a number of the group column.

    Examples
    --------
    >>> data = Array(np.array([[7.0, 1.0], [7.0, 2.0], [9.0, 5.0]]))
    >>> sums = Grouped(data, 0, lambda x, starts: np.add.reduceat(x[:, 1:], starts), d=1)
    >>> [rows.x.tolist() for rows in sums.blocks()], sums.length
    ([[[3.0], [5.0]]], 2)
    """

    def __init__(
        self,
        source: Source,
        group: int,
        fold: Fold,
        d: int,
        *,
        check: Check = no_check,
        label: Callable[[float], Any] = lambda key: int(key) if key == int(key) else key,
    ) -> None:
        self.source, self.group, self.fold, self.label = source, group, fold, label
        if not source.rereadable:
            raise SourceError(
                "an iterator can be read once only, and mixed-effects models read their data "
                "several times: give a table, a file, or a list of blocks"
            )
        self._d, self._check = d, check
        self._name = str(group) if source.columns is None else repr(source.columns[group])
        self._kept: tuple[Floats, Array] | None = None
        self._length = 0
        self._anchors: list[tuple[int, int]] = [(0, 0)]  # numbers of a unit and of its first row
        if in_memory(source):
            check_blocks(source, check)
            self.source, self._check = by_group(source, group), no_check
        self._scan()

    @property
    def d(self) -> int:
        return self._d

    @property
    def length(self) -> int:
        return self._length

    @property
    def random_access(self) -> bool:
        return in_memory(self.source)

    def anchors(self) -> list[int]:
        return [unit for unit, _ in self._anchors]

    def blocks(self, start: int = 0, length: int | None = None) -> Iterator[Rows]:
        for _, units in self.keyed_blocks(start, length):
            yield units

    def take(self, indices: NDArray[Any]) -> Rows:
        return self._units()[1].take(indices)

    def keyed_blocks(
        self, start: int = 0, length: int | None = None
    ) -> Iterator[tuple[Floats, Rows]]:
        """Blocks of units, with the numbers of their groups."""
        if self.random_access or self._small():
            keys, units = self._units()
            for rows in units.blocks(start, length):
                yield keys[start : start + len(rows)], rows
                start += len(rows)
            return
        unit, row = self._anchors[bisect_right(self._anchors, (start, np.inf)) - 1]
        for groups in self._groups(row, length):
            skip = min(max(0, start - unit), len(groups.starts))
            unit += len(groups.starts)
            if skip < len(groups.starts):
                yield self._folded(groups, skip)

    def _small(self) -> bool:
        return 8 * self._length * self._d <= KEPT_BYTES

    def _units(self) -> tuple[Floats, Array]:
        if self._kept is None:
            parts = [self._folded(groups, 0) for groups in self._groups(0, None)]
            units = join([rows for _, rows in parts])
            keys = np.concatenate([keys for keys, _ in parts])
            self._kept = keys, Array(units.x, units.weight)
        return self._kept

    def _folded(self, groups: Groups, skip: int) -> tuple[Floats, Rows]:
        """Units of all groups but the first `skip`."""
        first = groups.starts[skip]
        rows, starts = groups.rows.cut(first, len(groups.rows)), groups.starts[skip:] - first
        weight = None
        if rows.weight is not None:
            weight = rows.weight[starts]
            lengths = np.diff(np.append(starts, len(rows)))
            if not np.array_equal(np.repeat(weight, lengths), rows.weight):
                raise SourceError(
                    f"the weights differ within a group of {self._name}: a weight belongs to "
                    "a whole group, so give its rows the same one"
                )
        return np.array(rows.x[starts, self.group], np.float64), Rows(
            self.fold(rows.x, starts), weight
        )

    def _groups(self, row: int, length: int | None) -> Iterator[Groups]:
        """Blocks cut where groups begin; the last group of a block waits for the next."""
        waiting: list[Rows] = []
        first, held = row, 0
        for rows in self.source.blocks(row, length):
            if not len(rows):
                continue
            key = rows.x[:, self.group]
            new = np.flatnonzero(key[1:] != key[:-1]) + 1
            if waiting and key[0] != waiting[0].x[0, self.group]:
                new = np.concatenate([[0], new])
            if len(new) == 0:
                waiting.append(rows.copy())
                held += len(rows)
                continue
            whole = join([*waiting, rows.cut(0, new[-1])]) if waiting else rows.cut(0, new[-1])
            starts = np.concatenate([[0], new[:-1] + held]).astype(np.intp)
            yield Groups(whole, starts, first)
            first += len(whole)
            waiting = [rows.cut(new[-1], len(rows)).copy()]
            held = len(waiting[0])
        if waiting:
            yield Groups(join(waiting), np.zeros(1, np.intp), first)

    def _scan(self) -> None:
        """Count the groups, and refuse those that appear again."""
        seen = Seen(self._name, self.label)
        unit, anchors = 0, []
        for groups in self._groups(0, None):
            numbers = range(groups.first, groups.first + len(groups.rows))
            self._check(groups.rows, numbers)
            seen.add(groups.rows.x[groups.starts, self.group], groups.starts + groups.first)
            anchors.append((unit, groups.first))
            unit += len(groups.starts)
        self._length, self._anchors = unit, anchors or self._anchors


class Seen:
    """The groups met so far: eight bytes each, and next to no work while they ascend."""

    def __init__(self, name: str, label: Callable[[float], Any]) -> None:
        self.name, self.label = name, label
        self._keys: list[Floats] = []
        self._largest = -np.inf

    def add(self, keys: NDArray[Any], rows: NDArray[np.intp]) -> None:
        """Groups that begin at these rows."""
        large = np.flatnonzero(np.abs(keys) >= WHOLE_FLOATS)
        if len(large):
            raise SourceError(
                f"column {self.name} has {keys[large[0]]:.0f} in row {rows[large[0]]}: numbers "
                "of groups above 2**53 cannot be told apart; store them as text"
            )
        keys = np.array(keys, dtype=np.float64)
        ascending = keys[0] > self._largest and bool((np.diff(keys) > 0).all())
        if not ascending:
            self._refuse_again(keys, rows)
        self._keys.append(keys)
        self._largest = max(self._largest, float(keys.max()))

    def _refuse_again(self, keys: Floats, rows: NDArray[np.intp]) -> None:
        again = np.ones(len(keys), dtype=bool)
        again[np.unique(keys, return_index=True)[1]] = False
        for earlier in self._keys:
            again |= np.isin(keys, earlier)
        if again.any():
            i = int(again.argmax())
            raise SourceError(
                f"the data are not sorted by {self.name}: group {self.label(float(keys[i]))} "
                f"appears again at row {rows[i]}; sort the file by it, or fit it in memory"
            )


def in_memory(source: Source) -> TypeGuard[Array]:
    """Whether all rows are at hand; a memory map need not fit."""
    return isinstance(source, Array) and not isinstance(source.x, np.memmap)


def by_group(source: Array, group: int) -> Array:
    """Rows in memory in the order of their groups, otherwise in the order they had."""
    key = np.asarray(source.x[:, group])
    if (key[1:] >= key[:-1]).all():
        return source
    rows = source.take(np.argsort(key, kind="stable"))
    return Array(rows.x, rows.weight, source.columns)


def check_blocks(source: Source, check: Check) -> None:
    """Show every row of a source to `check`, with its number."""
    first = 0
    for rows in source.blocks():
        check(rows, range(first, first + len(rows)))
        first += len(rows)
