"""Names of columns as the user writes them, and as a model knows them.

The columns of a frame may be named by whole numbers; the model knows these as text.
"""

from __future__ import annotations

from collections.abc import Collection
from numbers import Integral
from typing import Any


def known_name(name: Any, known: Collection[Any]) -> Any:
    """The name by which a model knows a column; the same name if it knows none."""
    is_text = name not in known and isinstance(name, Integral) and str(name) in known
    return str(name) if is_text else name


def named_cells(row: Any, known: Collection[Any] | None) -> Any:
    """A row whose cells have names as a dict: a dict itself, or a Series of pandas.

    Names are those by which the model knows its columns. Other rows are returned as they are.
    """
    if isinstance(row, dict):
        return with_known_names(row, known)
    if known is None or getattr(row, "ndim", 0) != 1 or not hasattr(row, "to_dict"):
        return row
    cells = with_known_names(row.to_dict(), known)
    return row if cells.keys().isdisjoint(known) else cells


def with_known_names(row: dict[Any, Any], known: Collection[Any] | None) -> dict[Any, Any]:
    """A row with the names by which a model knows its columns; others are kept."""
    if known is None or all(type(name) is str for name in row):
        return row
    names = list(known)
    found = {name: known_name(name, names) for name in row}
    return {name if found[name] in row else found[name]: cell for name, cell in row.items()}
