"""The types of the columns of rows that arrive, which are those of the first rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mixfold.sources.dates import is_temporal, temporal_type
from mixfold.sources.optional_arrow import arrow
from mixfold.sources.table import is_number


def stream_type(kind: Any, values: Iterable[Any]) -> Any:
    """The type of a column in which a type was found; one wrong cell does not make it text.

    Columns of numbers may have missing cells and fractions later, so they are floating-point.
    """
    pa = arrow()
    if is_number(kind) or pa.types.is_null(kind):
        return pa.float64()
    if pa.types.is_boolean(kind) or is_temporal(kind):
        return kind
    return pa.float64() if _mostly_numbers(values) else pa.string()


def type_of_values(values: Sequence[Any]) -> Any:
    """The type of a column of Python values, which may be of several types."""
    pa = arrow()
    try:
        kind = pa.array(values, from_pandas=True).type
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        kind = pa.string()
    if pa.types.is_nested(kind):
        return kind
    text = any(isinstance(found, str) for found in values)
    return stream_type(kind, [] if text and pa.types.is_string(kind) else values)


def _mostly_numbers(values: Iterable[Any]) -> bool:
    """Whether at least half of the cells that are not empty are numbers."""
    cells = [cell for cell in values if cell is not None and cell != ""]
    return bool(cells) and 2 * sum(map(_is_number, cells)) >= len(cells)


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return not isinstance(cell, bool)


def type_named(text: str) -> Any:
    """The Arrow type with this name, of those that columns of a stream have."""
    pa = arrow()
    plain = {str(kind): kind for kind in (pa.float64(), pa.string(), pa.bool_())}
    return plain[text] if text in plain else temporal_type(text)
