"""Columns of libraries that Arrow has no type for, as columns that it has."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from mixfold.sources.optional_arrow import arrow

LONG = frozenset(("Int128", "UInt128"))  # integers of polars that become float64


def with_plain_columns(data: Any) -> Any:
    """A frame of pandas or polars with such columns converted; all else as it is."""
    if _is_frame(data, "pandas"):
        return _plain_pandas(data)
    return _plain_polars(data) if _is_frame(data, "polars") else data


def _is_frame(data: Any, name: str) -> bool:
    """Whether `data` is a frame in memory of a library, which is not imported for that."""
    library = sys.modules.get(name)
    return library is not None and isinstance(data, library.DataFrame)


def _plain_pandas(frame: Any) -> Any:
    """The frame with dense columns for sparse ones, and with text for intervals of categories."""
    found = frame
    for i, kind in enumerate(frame.dtypes):
        if type(kind).__name__ == "SparseDtype":
            column = frame.iloc[:, i].sparse.to_dense()
        elif type(getattr(kind, "categories", None)).__name__ == "IntervalIndex":
            column = frame.iloc[:, i].cat.rename_categories(str)
        else:
            continue
        found = frame.copy(deep=False) if found is frame else found
        found.isetitem(i, column)
    return found


def _plain_polars(frame: Any) -> Any:
    kinds = zip(frame.columns, frame.dtypes, strict=True)
    long = [name for name, kind in kinds if str(kind) in LONG]
    return frame.cast(dict.fromkeys(long, sys.modules["polars"].Float64)) if long else frame


def plain_cell(found: Any) -> Any:
    """The value of a cell; an interval of pandas as the text that its category has."""
    return str(found) if type(found).__name__ == "Interval" and hasattr(found, "closed") else found


def fields_of(array: np.ndarray) -> dict[str, np.ndarray]:
    """The columns of an array with named fields, such as a record array, in native byte order."""
    columns = {name: np.asarray(array[name]) for name in array.dtype.names or ()}
    return {name: x.astype(x.dtype.newbyteorder("="), copy=False) for name, x in columns.items()}


def is_encoded(kind: Any) -> bool:
    """Whether an Arrow type stores the lengths of runs of equal values."""
    return bool(arrow().types.is_run_end_encoded(kind))


def decoded_field(field: Any) -> Any:
    """The field of a column once runs of equal values are written out."""
    return field.with_type(field.type.value_type) if is_encoded(field.type) else field


def decoded_runs(array: Any) -> Any:
    """An array with runs of equal values written out."""
    return arrow().compute.run_end_decode(array) if is_encoded(array.type) else array
