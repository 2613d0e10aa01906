"""Accumulation of the sums of a batch from blocks of any sizes.

Sums are computed over whole tiles, counted from the first row of the batch, so that results do not
depend on the blocks. Rows that do not fill a tile are buffered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mixfold.core.backend import EXPECTED, Assignment, Backend, Model
from mixfold.core.checks import LARGEST_SUM, check_array, check_count, check_least
from mixfold.core.errors import InvalidInputError
from mixfold.core.params import Params
from mixfold.core.rows import Array, Rows, join, no_rows
from mixfold.core.value import replace, value

Fold = Callable[[Rows, Array, int], Array]
"""Adds rows to sums; the number is that of the first of them in the batch."""


@value
class Gathered:
    """Sums over whole tiles, the buffered rows, and the number of all rows."""

    sums: Array
    waiting: Rows
    n: int

    def check(self, model: Model, params: Params, more: int = 0) -> None:
        """Raise an error for sums of another length than the model's plus `more`, and invalid rows.

        Statistics of the sums, which were computed under `params`, must be in their domain too.
        None is for sums of differences, which may be negative.
        """
        n = model.n_sums
        check_array("sums", self.sums[1:], (n + more - 1,), -LARGEST_SUM, LARGEST_SUM)
        if np.isnan(self.sums[0]):
            raise InvalidInputError("the log-likelihood in sums is NaN: a number is needed")
        if params is not None:
            with np.errstate(all="ignore"):
                statistics = model.statistics(params, self.sums[:n])
            if statistics.count != 0.0:
                model.check_statistics(statistics)
        model.check_rows(self.waiting)
        check_count("n", self.n)
        check_least("n", self.n, len(self.waiting))
        if self.n == len(self.waiting) and self.sums.any():
            raise InvalidInputError("sums are not zero, but no rows have been added to them")


def nothing(backend: Backend, more: int = 0) -> Gathered:
    """An empty batch, with `more` sums in addition to the model's."""
    return Gathered(np.zeros(backend.model.n_sums + more), no_rows(backend.model.d), 0)


def expecting(backend: Backend, params: Params, assignment: Assignment = EXPECTED) -> Fold:
    """A function that adds the statistics of rows under `params` to the sums."""

    def fold(rows: Rows, sums: Array, offset: int) -> Array:
        there = replace(assignment, first=assignment.first + offset)
        return backend.fold(params, rows, sums, there)

    return fold


def gather(fold: Fold, tile: int, so_far: Gathered, rows: Rows) -> Gathered:
    """Add rows to a batch under fixed parameters."""
    sums, n = so_far.sums, so_far.n + len(rows)
    n_waiting = len(so_far.waiting)
    done = so_far.n - n_waiting
    if n_waiting + len(rows) < tile:
        waiting = join([so_far.waiting, rows]) if n_waiting else rows.copy()
        return Gathered(sums, waiting, n)
    if n_waiting:
        first = join([so_far.waiting, rows.cut(0, tile - n_waiting)])
        sums = fold(first, sums, done)
        rows, done = rows.cut(tile - n_waiting, len(rows)), done + tile
    whole = len(rows) - len(rows) % tile
    if whole:
        sums = fold(rows.cut(0, whole), sums, done)
    return Gathered(sums, rows.cut(whole, len(rows)).copy(), n)


def total(fold: Fold, gathered: Gathered) -> Array:
    """The sums of all rows of the batch, including buffered ones."""
    n_waiting = len(gathered.waiting)
    return (
        fold(gathered.waiting, gathered.sums, gathered.n - n_waiting)
        if n_waiting
        else gathered.sums
    )


def closed(fold: Fold, gathered: Gathered) -> Gathered:
    """The same sums after adding the buffered rows."""
    if not len(gathered.waiting):
        return gathered
    return Gathered(total(fold, gathered), no_rows(gathered.waiting.x.shape[1]), gathered.n)


def added(before: Gathered, parts: Sequence[Gathered]) -> Gathered:
    """The sums over the rows of all parts, each of which continued from `before`."""
    sums, n = before.sums, before.n
    for part in parts:
        sums = sums + (part.sums - before.sums)
        n += part.n - before.n
    return Gathered(sums, before.waiting, n)
