"""Selection of columns of pandas and polars frames, and validation of arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from mixfold.core.errors import InvalidInputError
from mixfold.sources.opening import is_table
from mixfold.sources.table import NUMERIC_COLUMNS, check_names, is_missing, listed


def is_frame(data: Any) -> bool:
    """Whether `data` is a pandas or polars frame in memory."""
    return is_table(data) and hasattr(data, "dtypes")


def check_column_list(columns: Any) -> None:
    """Refuse names of columns that are not a list of text."""
    if columns is None:
        return
    if isinstance(columns, str) or not all(isinstance(name, str) for name in columns):
        raise InvalidInputError(f"columns is {columns!r}: a list of names is needed")


def known_columns(estimator: Any, data: Any) -> list[str] | None:
    """The columns of `fit` to select from a frame; None leaves the check to scikit-learn.

    They are selected by name if the estimator has `columns`, or if the frame has all of them and
    further ones, such as the weights of `fit`.
    """
    known = getattr(estimator, "feature_names_in_", None)
    if known is None:
        return None
    chosen = getattr(estimator, "columns", None) is not None
    return list(known) if chosen or set(known) < set(data.columns) else None


def take_columns(
    frame: Any, columns: Sequence[str] | None, weight: str | None
) -> tuple[Any, np.ndarray | None]:
    """The columns of a frame that are data, as a frame, and the one that is the weight."""
    names = list(frame.columns)
    if columns is None:
        columns = [name for name in names if name != weight]
    check_names(names, [*columns, *([weight] if weight else [])], "the table")
    if not columns:
        raise InvalidInputError(f"columns is {columns!r}: at least one column is needed")
    chosen = frame[list(columns)]
    if weight is None:
        return chosen, None
    with name_the_column(frame[[weight]]):
        return chosen, np.asarray(frame[weight], dtype=np.float64)


def as_numbers(estimator: Any, data: Any, *, reset: bool, least_rows: int) -> Any:
    """Convert a frame or array with scikit-learn; errors name a column that is not numeric."""
    with np.errstate(invalid="ignore"), name_the_column(data):  # a sum of values may overflow
        return validate_data(
            estimator,
            data,
            reset=reset,
            dtype=[np.float64, np.float32],
            ensure_min_samples=least_rows,
            ensure_all_finite=False,  # `check_finite` tests this and names the cell
            order=None,
        )


@contextmanager
def name_the_column(data: Any) -> Iterator[None]:
    """Name the column that is not numeric if a conversion fails for that reason."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if "feature names" in str(error):  # scikit-learn compares them before it converts the data
            raise
        columns = _columns(data)
        found = {name: _not_a_number(column) for name, column in columns}
        bad = [name for name, value in found.items() if value is not None]
        if not bad:
            raise
        remedy = "leave it out, or make numbers of its values"
        label = f"column {bad[0]!r}" if is_frame(data) else f"column {bad[0] + 1} (counted from 1)"
        if is_frame(data):
            good = [name for name in found if name not in bad]
            remedy = NUMERIC_COLUMNS + (f"; numeric columns are {listed(good)}" if good else "")
        kind = TypeError if isinstance(error, TypeError) else InvalidInputError
        raise kind(
            f"{label} has {found[bad[0]]!r}, which is not a number ({error}); {remedy}"
        ) from None


def _columns(data: Any) -> list[tuple[Any, np.ndarray]]:
    """The columns of a frame, or of what becomes a two-dimensional array, with their names."""
    if is_frame(data):
        names = list(data.columns)
        unique = len(set(names)) == len(names)
        return [(name, np.asarray(data[name])) for name in names] if unique else []
    try:
        table = np.asarray(data, dtype=object)
    except ValueError:
        return []
    return list(enumerate(table.T)) if table.ndim == 2 else []


def _not_a_number(column: np.ndarray) -> Any:
    """The first value of a column that is neither a number nor missing; None if there is none."""
    if column.dtype.kind in "fiub":
        return None
    if column.dtype.kind in "mM":
        return str(column[0]) if len(column) else None
    for found in column.tolist():
        try:
            float(found)
        except (TypeError, ValueError):
            # complex numbers are refused by scikit-learn
            if not (is_missing(found) or isinstance(found, complex)):
                return found
    return None
