"""Grouping of rows: each group becomes one row, a subject of mixed-effects models."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from mixfold.core.errors import SourceError
from mixfold.core.fingerprint import FULL_BYTES, Fingerprint
from mixfold.core.places import row_place
from mixfold.core.rows import Array as Floats
from mixfold.core.rows import Rows, join
from mixfold.core.source import Check, Source, block_length, no_check
from mixfold.sources.array_source import ArraySource

Fold = Callable[[NDArray[Any], NDArray[np.intp]], Floats]
WHOLE_FLOATS = 2.0**53
KEPT_BYTES = 2**28
KEPT_SHARE = 4


class Groups(NamedTuple):
    """Rows of whole groups, where each group starts, and the number of the first row."""

    rows: Rows
    starts: NDArray[np.intp]
    first: int


class Grouped(Source):
    """The rows of another source, with each group converted to one row, a subject.

    The rows of a group are those, one after the other, that share the number in column `group`; a
    group may extend over any number of blocks, and memory is bounded by a block and the longest
    group (and eight bytes per group while the order is checked). `fold(x, starts)` converts rows
    (n, c) of m whole groups, which begin at `starts`, to subjects (m, d); its result for a group
    must not depend on the others. The weight of a row is that of its group.

    Data in memory are sorted first, and their subjects can be indexed. Other data are read once
    beforehand: their groups are counted, their order is checked, and `check(rows, numbers)` is
    called with every row and its number in the source. Subjects are kept if they take no more than
    KEPT_BYTES, or KEPT_SHARE times the memory of the rows; otherwise they are computed again, a
    block at a time, in every pass. `label` gives the name of a number in the group column.

    Examples
    --------
    >>> data = ArraySource(np.array([[7.0, 1.0], [7.0, 2.0], [9.0, 5.0]]))
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
        check_rereadable(source)
        self._d, self._check = d, check
        self._name = str(group) if source.columns is None else repr(source.columns[group])
        self._kept: tuple[Floats, ArraySource] | None = None
        self._length = 0
        self._anchors: list[tuple[int, int]] = [(0, 0)]  # numbers of a subject and of its first row
        self._bounds = np.zeros(0, np.intp)  # first rows of groups in memory, and the end
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

    def fingerprint(self, limit: int = FULL_BYTES) -> Fingerprint:
        return self.source.fingerprint(limit)

    def anchors(self) -> list[int]:
        return [subject for subject, _ in self._anchors]

    def blocks(self, start: int = 0, length: int | None = None) -> Iterator[Rows]:
        for _, subjects in self.keyed_blocks(start, length):
            yield subjects

    def take(self, indices: NDArray[Any]) -> Rows:
        if self._keeps():
            return self._subjects()[1].take(indices)
        if not self.random_access:
            return super().take(indices)
        first = self._bounds[indices]
        counts = self._bounds[indices + 1] - first
        starts = np.cumsum(counts) - counts
        rows = self.source.take(np.arange(counts.sum()) + np.repeat(first - starts, counts))
        return self._folded(rows, starts)[1]

    def refolded(self, fold: Fold, d: int) -> Grouped:
        """The same groups with another `fold`."""
        other = copy(self)
        other.fold, other._d, other._kept = fold, d, None
        return other

    def keyed_blocks(
        self, start: int = 0, length: int | None = None
    ) -> Iterator[tuple[Floats, Rows]]:
        """Blocks of subjects, with the numbers of their groups."""
        if self._keeps():
            keys, subjects = self._subjects()
            for rows in subjects.blocks(start, length):
                yield keys[start : start + len(rows)], rows
                start += len(rows)
            return
        subject, row = self._anchors[bisect_right(self._anchors, (start, np.inf)) - 1]
        for groups in self._groups(row):
            skip = min(max(0, start - subject), len(groups.starts))
            subject += len(groups.starts)
            yield from self._folded_blocks(groups, skip, length)

    def _keeps(self) -> bool:
        room = KEPT_SHARE * self.source.x.nbytes if in_memory(self.source) else 0
        return 8 * self._length * self._d <= max(room, KEPT_BYTES)

    def _subjects(self) -> tuple[Floats, ArraySource]:
        if self._kept is None:
            keys, subjects = np.empty(self._length), np.empty((self._length, self._d))
            weights, subject = [], 0
            for groups in self._groups(0):
                for key, rows in self._folded_blocks(groups, 0, None):
                    keys[subject : subject + len(rows)], subjects[subject : subject + len(rows)] = (
                        key,
                        rows.x,
                    )
                    weights += [] if rows.weight is None else [rows.weight]
                    subject += len(rows)
            weight = np.concatenate(weights) if weights else None
            self._kept = keys, ArraySource(subjects, weight)
        return self._kept

    def _folded_blocks(
        self, groups: Groups, skip: int, length: int | None
    ) -> Iterator[tuple[Floats, Rows]]:
        """Subjects of all groups but the first `skip`, in blocks of bounded size."""
        step = min(length or block_length(self._d), block_length(self._d))
        ends = np.append(groups.starts, len(groups.rows))
        for i in range(skip, len(groups.starts), step):
            starts = groups.starts[i : i + step]
            rows = groups.rows.cut(starts[0], ends[i + len(starts)])
            yield self._folded(rows, starts - starts[0])

    def _folded(self, rows: Rows, starts: NDArray[np.intp]) -> tuple[Floats, Rows]:
        """Subjects of groups that begin at `starts`."""
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

    def _groups(self, row: int) -> Iterator[Groups]:
        """Blocks of whole groups; the last group of a block is kept for the next one."""
        waiting: list[Rows] = []
        first, n_waiting = row, 0
        for rows in self.source.blocks(row):
            if not len(rows):
                continue
            key = rows.x[:, self.group]
            new = np.flatnonzero(key[1:] != key[:-1]) + 1
            if waiting and key[0] != waiting[0].x[0, self.group]:
                new = np.concatenate([[0], new])
            if len(new) == 0:
                waiting.append(rows.copy())
                n_waiting += len(rows)
                continue
            whole = join([*waiting, rows.cut(0, new[-1])]) if waiting else rows.cut(0, new[-1])
            starts = np.concatenate([[0], new[:-1] + n_waiting]).astype(np.intp)
            yield Groups(whole, starts, first)
            first += len(whole)
            waiting = [rows.cut(new[-1], len(rows)).copy()]
            n_waiting = len(waiting[0])
        if waiting:
            yield Groups(join(waiting), np.zeros(1, np.intp), first)

    def _scan(self) -> None:
        """Count the groups, and raise an error if a group appears again."""
        seen = Seen(self._name, self.label)
        subject, row, anchors = 0, 0, []
        begins: list[NDArray[np.intp]] = []
        for groups in self._groups(0):
            row = groups.first + len(groups.rows)
            self._check(groups.rows, range(groups.first, row))
            seen.add(groups.rows.x[groups.starts, self.group], groups.starts + groups.first)
            anchors.append((subject, groups.first))
            subject += len(groups.starts)
            if self.random_access:
                begins.append(groups.starts + groups.first)
        self._length, self._anchors = subject, anchors or self._anchors
        self._bounds = np.concatenate([*begins, [row]])


class Seen:
    """The groups read so far: eight bytes each, and fast if they are ascending."""

    def __init__(self, name: str, label: Callable[[float], Any]) -> None:
        self.name, self.label = name, label
        self._keys: list[Floats] = []
        self._largest = -np.inf

    def add(self, keys: NDArray[Any], rows: NDArray[np.intp]) -> None:
        """Groups that begin at these rows."""
        large = np.flatnonzero(np.abs(keys) >= WHOLE_FLOATS)
        if len(large):
            raise SourceError(
                f"column {self.name} has {keys[large[0]]:.0f} in "
                f"{row_place(int(rows[large[0]]))}: numbers of groups above 2**53 cannot be told "
                "apart; store them as text"
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
                f"appears again at {row_place(int(rows[i]))}; sort the file by it, or fit it in "
                "memory"
            )


def check_rereadable(source: Source) -> None:
    """Raise an error for a source that can be read only once."""
    if not source.rereadable:
        raise SourceError(
            "an iterator can be read once only, and mixed-effects models read their data "
            "several times: give a table, a file, or a list of blocks"
        )


def in_memory(source: Source) -> TypeGuard[ArraySource]:
    """Whether all rows are in memory; false for a memory map."""
    return isinstance(source, ArraySource) and not isinstance(source.x, np.memmap)


def by_group(source: ArraySource, group: int) -> ArraySource:
    """Rows in memory, sorted by group; the sort is stable."""
    key = np.asarray(source.x[:, group])
    if (key[1:] >= key[:-1]).all():
        return source
    rows = source.take(np.argsort(key, kind="stable"))
    return ArraySource(rows.x, rows.weight, source.columns)


def check_blocks(source: Source, check: Check) -> None:
    """Call `check` with every row of a source and its number."""
    first = 0
    for rows in source.blocks():
        check(rows, range(first, first + len(rows)))
        first += len(rows)
