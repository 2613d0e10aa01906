"""Rows with missing cells, which are NaN."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mixfold.core.rows import Array, Rows


def has_missing(x: NDArray[Any]) -> bool:
    """Whether a cell of an array, or of a tensor on a device, is missing.

    The sum is NaN if any cell is, which is faster than a test of each.
    """
    if not isinstance(x, np.ndarray):
        return bool(x.sum().isnan()) and bool(x.isnan().any())
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isnan(x.sum())) and bool(np.isnan(x).any())


def runs_of_rows(rows: Rows) -> Iterator[tuple[Rows, bool]]:
    """Rows in their order, in runs of rows that miss no cell, and of rows that miss some.

    Says of every run whether it misses no cell.
    """
    if not has_missing(rows.x):
        yield rows, True
        return
    complete = ~np.isnan(rows.x).any(axis=1)
    cuts = np.flatnonzero(complete[1:] != complete[:-1]) + 1
    for first, last in pairwise([0, *cuts.tolist(), len(rows)]):
        yield rows.cut(first, last), bool(complete[first])


def filled(x: Array, rng: np.random.Generator) -> Array:
    """Rows whose missing cells hold values of the same column in other rows, drawn at random.

    A column without any observed cell is filled with zeros.
    """
    found = np.array(x, dtype=np.float64)
    for column in found.T:
        missing = np.isnan(column)
        there = column[~missing]
        if missing.any():
            column[missing] = rng.choice(there, missing.sum()) if len(there) else 0.0
    return found


class Pattern(NamedTuple):
    """Numbers of the rows with the same cells observed, and the columns that are and are not."""

    rows: NDArray[np.intp]
    observed: NDArray[np.intp]
    missing: NDArray[np.intp]


def patterns(x: Array) -> list[Pattern]:
    """Rows grouped by the cells that are missing."""
    missing = np.isnan(x)
    keys = np.packbits(missing, axis=1)
    order = np.lexsort(keys.T[::-1])
    changed = (keys[order[1:]] != keys[order[:-1]]).any(axis=1)
    groups = np.split(order, np.flatnonzero(changed) + 1) if len(x) else []
    found = []
    for rows in groups:
        gone = missing[rows[0]]
        found.append(Pattern(np.sort(rows), np.flatnonzero(~gone), np.flatnonzero(gone)))
    return found
