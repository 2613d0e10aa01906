"""Rows and cells in error messages; rows and columns count from 1."""

from __future__ import annotations

from collections.abc import Sequence


def row_place(row: int) -> str:
    """Describe a row, given by its index from 0."""
    return f"row {row + 1} (counted from 1)"


def cell_place(row: int | None, column: int, columns: Sequence[str] | None) -> str:
    """Describe a cell, given by its indices from 0; the column is named if it has a name."""
    if columns is not None:
        which = "a row" if row is None else row_place(row)
        return f"{which}, column {str(columns[column])!r}"
    if row is None:
        return f"a row, column {column + 1} (counted from 1)"
    return f"row {row + 1}, column {column + 1} (both counted from 1)"
