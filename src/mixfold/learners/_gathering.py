"""Gathering the E-step sums of a batch from blocks of any sizes.

Sums are made over whole tiles, counted from the batch's first row, so how the rows arrive does
not show in the bits. Rows that do not fill a tile wait.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.core.problem import Problem
from mixfold.core.rows import Array, Rows, join, no_rows
from mixfold.core.value import value


@value
class Gathered:
    """Sums over whole tiles, the rows that wait, and how many rows came in all."""

    sums: Array
    waiting: Rows
    n: int


def nothing(problem: Problem) -> Gathered:
    """Before the first row of a batch."""
    return Gathered(np.zeros(problem.model.n_sums), no_rows(problem.model.d), 0)


def gather(problem: Problem, params: Any, so_far: Gathered, rows: Rows) -> Gathered:
    """Add rows to a batch under fixed parameters."""
    tile, sums, n = problem.tile, so_far.sums, so_far.n + len(rows)
    held = len(so_far.waiting)
    if held + len(rows) < tile:
        waiting = join([so_far.waiting, rows]) if held else rows.copy()
        return Gathered(sums, waiting, n)
    if held:
        first = join([so_far.waiting, rows.cut(0, tile - held)])
        sums = problem.fold(params, first, sums)
        rows = rows.cut(tile - held, len(rows))
    whole = len(rows) - len(rows) % tile
    if whole:
        sums = problem.fold(params, rows.cut(0, whole), sums)
    return Gathered(sums, rows.cut(whole, len(rows)).copy(), n)


def total(problem: Problem, params: Any, gathered: Gathered) -> Array:
    """The sums of all rows of the batch, waiting ones included."""
    if len(gathered.waiting) == 0:
        return gathered.sums
    return problem.fold(params, gathered.waiting, gathered.sums)
