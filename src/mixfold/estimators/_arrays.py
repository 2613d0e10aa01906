"""Validation of arrays of observations as in scikit-learn; errors name row and column."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import column_or_1d, validate_data

from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array as Floats


class Features(NamedTuple):
    """X without the column of groups, the names of its columns, and the groups of rows."""

    x: Floats
    names: list[str]
    groups: Any


def features_of(estimator: Any, given: Any, groups: Any, group: int | None, fit: bool) -> Features:
    """Split X into features and, where `group` is the number of a column, groups."""
    x = _validated(estimator, given, 0 if group is None else 1, fit)
    names = column_names(given, x.shape[1], "x")
    bad = ~np.isfinite(x)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise InvalidInputError(
            f"row {row}, column {names[column]!r} is {x[row, column]}: X has NaN or inf there; "
            "drop or fill such rows"
        )
    if group is None:
        return Features(x, names, groups)
    if groups is not None:
        raise InvalidInputError(
            f"groups is given, but group={group} says that a column of X has the groups"
        )
    if not group < len(names):
        raise InvalidInputError(
            f"group is {group}, but X has {len(names)} columns, numbered from 0"
        )
    rest = [*names[:group], *names[group + 1 :]]
    return Features(np.delete(x, group, axis=1), rest, x[:, group])


def _validated(estimator: Any, given: Any, least_columns: int, fit: bool) -> Floats:
    try:
        x = validate_data(
            estimator,
            given,
            reset=fit,
            dtype=np.float64,
            ensure_all_finite=False,
            ensure_min_samples=0,
            ensure_min_features=least_columns,
        )
    except ValueError as error:
        if "could not convert" in str(error):
            raise InvalidInputError(
                f"X is not numeric ({error}); for categorical columns give a formula and a table"
            ) from None
        if "Expected 2D array" in str(error):
            raise InvalidInputError(
                "X is not two-dimensional: rows and columns are needed. Reshape your data, with "
                "X.reshape(-1, 1) if it is one column"
            ) from None
        raise InvalidInputError(f"X cannot be used: {error}") from None
    if not len(x):
        raise InvalidInputError("X has no rows: at least one is needed")
    return np.asarray(x, dtype=np.float64)


def column_names(given: Any, n: int, letter: str) -> list[str]:
    """The names of columns, or a letter and their numbers."""
    names = getattr(given, "column_names", getattr(given, "columns", None))
    return [f"{letter}{j}" for j in range(n)] if names is None else [str(name) for name in names]


class Labels(NamedTuple):
    """The two classes of a response, and 0 or 1 for every row."""

    classes: np.ndarray
    codes: Floats


def labels_of(y: Any) -> Labels:
    """The classes of a binary response; the second in order is the one that is modelled."""
    try:
        y = column_or_1d(y, warn=True)
    except ValueError as error:
        raise InvalidInputError(f"y cannot be used: {error}") from None
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        row = int((~np.isfinite(y)).argmax())
        raise InvalidInputError(f"y is {y[row]} in row {row}: drop or fill such rows")
    if not len(y):
        raise InvalidInputError("y has no rows: at least one is needed")
    kind = type_of_target(y, input_name="y")
    if kind not in ("binary", "multiclass"):
        raise InvalidInputError(f"Unknown label type: y is {kind}; two classes are needed")
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) > 2:
        raise InvalidInputError(
            f"Only binary classification is supported. The response y has {len(classes)} classes"
        )
    if len(classes) < 2:
        only = f"{classes[0]:g}" if classes.dtype.kind in "iuf" else repr(classes.tolist()[0])
        raise InvalidInputError(
            f"the response is {only} in every row: y has one class, and two are needed"
        )
    return Labels(classes, codes.astype(np.float64))
