"""Rows of a stream as numbers and as texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mixfold.core.rows import Array
from mixfold.sources.dates import days, is_temporal
from mixfold.sources.table import is_numeric

LONGEST = 40  # characters of a cell


def numbers_of(rows: Any) -> Array:
    """The rows (n, d) as numbers, with NaN for text and missing cells."""
    if isinstance(rows, np.ndarray):
        return np.asarray(rows, dtype=np.float64)
    return np.column_stack(
        [_column(rows.column(j).combine_chunks()) for j in range(rows.num_columns)]
    )


def _column(array: Any) -> Array:
    if is_temporal(array.type):
        return days(array)
    if not is_numeric(array.type):
        return np.full(len(array), np.nan)
    return np.asarray(array.cast("float64").to_numpy(zero_copy_only=False))


def texts_of(rows: Any, i: int) -> list[str]:
    """The cells of row i as short texts."""
    cells: Sequence[Any]
    cells = (
        rows[i].tolist() if isinstance(rows, np.ndarray) else [c[i].as_py() for c in rows.columns]
    )
    return [_text(cell) for cell in cells]


def _text(cell: Any) -> str:
    if cell is None or cell != cell:  # noqa: PLR0124 - NaN differs from itself
        return "missing"
    text = f"{cell:.6g}" if isinstance(cell, float) else str(cell)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def names_of(model: Any, d: int) -> list[str]:
    """The names of the columns that a model has learned, or their numbers from 1 on."""
    names = getattr(model, "feature_names_in_", None)
    return [str(name) for name in names] if names is not None else [f"x{j + 1}" for j in range(d)]
