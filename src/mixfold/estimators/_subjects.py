"""Conversion of the rows of a table to the subjects of mixed models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array as Floats
from mixfold.core.source import Check, Source
from mixfold.sources.grouped import Grouped

Table = Callable[[NDArray[Any], NDArray[np.intp]], tuple[Floats, NDArray[np.intp]]]
"""From rows and where groups start to the rows of the subjects' tables, and where these start."""


def subjects_of(
    source: Source, table: Table, check: Check, label: Callable[[float], Any]
) -> tuple[Grouped, int]:
    """The subjects of a source whose first column is the group, and the most table rows of one."""

    width = 0

    def counted(x: NDArray[Any], starts: NDArray[np.intp]) -> Floats:
        nonlocal width
        rows, begins = table(x, starts)
        width = rows.shape[1]
        return np.diff(np.append(begins, len(rows))).astype(np.float64)[:, None]

    counts = Grouped(source, 0, counted, 1, check=check, label=label)
    if not counts.length:
        raise InvalidInputError("the data have no rows: at least one is needed")
    most = int(max(subjects.x.max() for subjects in counts.blocks()))

    def fold(x: NDArray[Any], starts: NDArray[np.intp]) -> Floats:
        return padded(*table(x, starts), most)

    return counts.refolded(fold, 1 + most * width), most


def padded(table: Floats, starts: NDArray[np.intp], most: int) -> Floats:
    """Subjects: the number of table rows, the table rows, zeros."""
    counts = np.diff(np.append(starts, len(table)))
    subject = np.repeat(np.arange(len(starts)), counts)
    place = np.arange(len(table)) - starts[subject]
    cells = np.zeros((len(starts), most, table.shape[1]))
    cells[subject, place] = table
    return np.hstack([counts[:, None].astype(np.float64), cells.reshape(len(starts), -1)])
