"""Validation of data and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight, check_random_state

from mixfold.core.arrays import as_array, is_tensor, on_host
from mixfold.core.engine import engine_holding
from mixfold.core.errors import InvalidInputError, MissingValueError
from mixfold.core.family import Family
from mixfold.core.learner import Learner
from mixfold.core.limits import HEAVIEST, LARGEST, LIGHTEST
from mixfold.core.missing_cells import has_missing
from mixfold.core.places import cell_place
from mixfold.core.registry import make, name_of
from mixfold.core.rows import Array as Floats
from mixfold.core.rows import Rows
from mixfold.core.source import Source
from mixfold.estimators._cells import COMPLETE, Cells
from mixfold.estimators._foreign import as_rows
from mixfold.estimators._frames import (
    as_numbers,
    check_column_list,
    is_frame,
    known_columns,
    take_columns,
)
from mixfold.estimators._placing import open_tensor
from mixfold.sources.array_source import ArraySource
from mixfold.sources.object_source import source_for
from mixfold.sources.opening import is_blocks, is_paths, is_table, open_source, open_table


def family_from(given: Any) -> Family:
    """A family by name or as an object."""
    family = make("families", given)
    if not isinstance(family, Family):
        raise InvalidInputError(f"family is {given!r}: give a name or a family object")
    return family


def learner_from(given: Any) -> Learner:
    """A learner by name or as an object."""
    learner = make("learners", given)
    if not isinstance(learner, Learner):
        raise InvalidInputError(f"learner is {given!r}: give a name or a learner object")
    return learner


def seed_from(random_state: Any) -> int:
    """The random seed as one number."""
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    return int(check_random_state(random_state).randint(2**31 - 1))


def open_data(
    estimator: Any,
    data: Any,
    sample_weight: Any,
    columns: Sequence[str] | None,
    *,
    reset: bool,
    least_rows: int = 1,
    device: Any = None,
    cells: Cells = COMPLETE,
) -> Source:
    """A source over the user's data; arrays are validated like in scikit-learn.

    A tensor is moved to the device or, if that is None, converted to an array.
    """
    check_column_list(columns)
    check_table_shaped(data)
    data = as_rows(data, sample_weight)
    if is_tensor(data) and device is not None:
        named = sample_weight if isinstance(sample_weight, str) else None
        _check_no_names(columns, named, "tensors")
        tensor = open_tensor(estimator, data, sample_weight, device, reset, least_rows)
        if not cells.missing:
            check_finite(None, Rows(tensor.x), range(len(tensor.x)))
        source: Source = tensor
    else:
        data, sample_weight = as_array(data), as_array(sample_weight)
        source = _open(estimator, data, sample_weight, columns, reset, least_rows, cells)
    if source.length == 0:
        raise InvalidInputError("the data have no rows: at least one is needed")
    return source


def check_table_shaped(data: Any) -> None:
    """Refuse a single column, a dict and a function, which have neither rows nor blocks."""
    if isinstance(data, dict) and not hasattr(data, "nnz"):  # some sparse matrices are dicts
        raise InvalidInputError(
            "X is a dict: a table is needed; use pandas.DataFrame(X) if it has columns, and "
            "pandas.DataFrame([X]) if it is a row"
        )
    if isinstance(data, list | tuple) and data and isinstance(data[0], dict):
        raise InvalidInputError(
            "X is a list of dicts: a table is needed; use pandas.DataFrame(X), or the methods for "
            "single rows, such as learn_one, score_one and predict_one"
        )
    if hasattr(data, "to_frame") and not hasattr(data, "columns"):
        raise InvalidInputError(
            f"X is a {type(data).__name__} of one column: a table of rows and columns is needed; "
            "use X.to_frame(), or choose the column as a table, df[['name']]"
        )
    if callable(data) and not hasattr(data, "__iter__") and not hasattr(data, "__array__"):
        raise InvalidInputError(
            f"X is {data!r}, which has no rows: if it makes a generator of blocks, call it, X()"
        )


def _open(
    estimator: Any,
    data: Any,
    sample_weight: Any,
    columns: Sequence[str] | None,
    reset: bool,
    least_rows: int,
    cells: Cells,
) -> Source:
    if is_frame(data) and cells.typed:
        return _open_typed(estimator, data, sample_weight, columns, reset, cells)
    if is_source(data):
        if sample_weight is not None and not isinstance(sample_weight, str):
            kind = type(sample_weight).__name__
            raise InvalidInputError(
                "sample_weight for files, streams and Dask collections is the name of a column, "
                f"not of type {kind}: add such a column; dask.dataframe.from_dask_array(X, "
                "columns=names) makes a table of a Dask array"
            )
        known = None if reset else getattr(estimator, "feature_names_in_", None)
        names = columns if columns is not None or known is None else list(known)
        engine = engine_holding(data)
        opening = open_source if engine is None else engine.open
        source = opening(data, names, sample_weight, cells.codes)
        if source.columns is None and not isinstance(data, Source):
            _check_no_names(columns, sample_weight, "blocks that are arrays")
        remember_columns(estimator, source.columns, source.d, reset)
        return source
    named = sample_weight if isinstance(sample_weight, str) else None
    if not is_frame(data):
        _check_no_names(columns, named, f"a {type(data).__name__}")
    else:
        wanted = columns if columns is not None or reset else known_columns(estimator, data)
        if wanted is not None or named is not None:
            data, weight = take_columns(data, wanted, named)
            sample_weight = sample_weight if named is None else weight
    x = as_numbers(estimator, data, reset=reset, least_rows=least_rows)
    names = getattr(estimator, "feature_names_in_", None)
    if not cells.missing:
        check_finite(names, Rows(x), range(len(x)))
    return _weighted(x, sample_weight, names)


def _open_typed(
    estimator: Any,
    frame: Any,
    sample_weight: Any,
    columns: Sequence[str] | None,
    reset: bool,
    cells: Cells,
) -> Source:
    """A source over a frame with columns that are not numeric."""
    named = sample_weight if isinstance(sample_weight, str) else None
    wanted = columns if reset or columns is not None else list(estimator.feature_names_in_)
    source = open_table(frame, wanted, named, cells.codes)
    remember_columns(estimator, source.columns, source.d, reset)
    if sample_weight is None or named is not None:
        return source
    return _weighted(source.x, sample_weight, source.columns)


def _check_no_names(columns: Any, sample_weight: Any, given: str) -> None:
    for name, value in (("columns", columns), ("sample_weight", sample_weight)):
        if value is not None:
            raise InvalidInputError(
                f"{name}={value!r} needs a table or file with column names: {given} have none"
            )


def is_source(data: Any) -> bool:
    """Whether `data` is read block by block rather than as one array."""
    if isinstance(data, Source) or is_paths(data):
        return True
    if source_for(data) is not None or engine_holding(data) is not None:
        return True
    return (is_table(data) and not is_frame(data)) or is_blocks(data)


def _weighted(x: Any, sample_weight: Any, columns: Any) -> ArraySource:
    if sample_weight is None:
        return ArraySource(x, None, columns)
    weight = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
    if not weight.any():
        raise InvalidInputError("all of sample_weight is zero: at least one must be positive")
    return ArraySource(x, np.ascontiguousarray(weight), columns)


def remember_columns(estimator: Any, columns: Sequence[str] | None, d: int, reset: bool) -> None:
    """Set the attributes of scikit-learn that tell the columns, or check that d are as many."""
    if reset:
        estimator.n_features_in_ = d
        estimator.__dict__.pop("feature_names_in_", None)
        if columns is not None:
            estimator.feature_names_in_ = np.asarray(columns, dtype=object)
    elif d != estimator.n_features_in_:
        raise InvalidInputError(
            f"the source has {d} columns, but {type(estimator).__name__} was fitted with "
            f"{estimator.n_features_in_}"
        )


@dataclass(frozen=True)
class RowCheck:
    """Refuses rows that a family does not allow; `columns` are names for messages."""

    family: Family
    columns: Sequence[str] | None

    def __call__(self, rows: Rows, numbers: Sequence[int] | None) -> None:
        check_rows(self.family, self.columns, rows, numbers)


def check_rows(
    family: Family, columns: Sequence[str] | None, rows: Rows, numbers: Sequence[int] | None
) -> None:
    """Refuse rows that are not finite or outside the family's support.

    `numbers` are the numbers of the rows in the user's data, if they are known.
    """
    check_finite(columns, rows.observed() if family.accepts_missing else rows, numbers)
    outside = family.out_of_support(rows.x)
    if outside is not None and outside.any():
        place = _first(outside, columns, rows, numbers)
        column = int(np.argwhere(on_host(outside))[0, 1])
        raise InvalidInputError(
            f"{place}: {family.support_message_of(column)} in a "
            f"{name_of(family.at_column(column))} mixture; leave out such rows, or choose another "
            "family"
        )


def check_sample(
    family: Family, source: Source, drawn: bool, rows: Rows, numbers: Sequence[int] | None
) -> None:
    """Check a sample of rows of a source; errors give the number of the row in the source.

    If parameters are drawn from the sample, some cell of every column must be observed.
    """
    try:
        check_rows(family, source.columns, rows, numbers)
        if drawn:
            _check_columns_observed(source.columns, rows)
    except InvalidInputError:
        first = 0
        for block in source.blocks() if numbers is None and source.rereadable else ():
            check_rows(family, source.columns, block, range(first, first + len(block)))
            first += len(block)
        raise


def _check_columns_observed(columns: Sequence[str] | None, rows: Rows) -> None:
    """Refuse columns of which no cell is observed."""
    if len(rows) and has_missing(rows.x):
        empty = np.flatnonzero(np.isnan(rows.x).all(axis=0))
        if len(empty):
            name = (
                f"{empty[0] + 1} (counted from 1)" if columns is None else repr(columns[empty[0]])
            )
            raise InvalidInputError(
                f"column {name} has no values in {len(rows):,} rows: leave it out with "
                "columns=[...] (--columns)"
            )


def check_finite(
    columns: Sequence[str] | None,
    rows: Rows,
    numbers: Sequence[int] | None,
    weight: str = "sample_weight",
) -> None:
    """Refuse NaN, infinity, values too large to be squared, and invalid weights.

    `weight` is the user's name for the weights.
    """
    # both are NaN if any value is; this is faster than a test of each value
    if len(rows) and not (float(rows.x.min()) > -LARGEST and float(rows.x.max()) < LARGEST):
        x = on_host(rows.x)
        if not np.isfinite(x).all():
            place = _first(~np.isfinite(x), columns, rows, numbers)
            kind = MissingValueError if np.isnan(x).any() else InvalidInputError
            raise kind(f"{place}: rows must be finite; drop or fill such rows")
        place = _first(np.abs(x) >= LARGEST, columns, rows, numbers)
        raise InvalidInputError(
            f"{place}: values must be below {LARGEST:g} in size; drop the row if that stands for a "
            "missing value, else use another unit"
        )
    if rows.weight is not None:
        check_weights(rows.weights(), weight)


def check_weights(weight: Floats, name: str = "sample_weight") -> None:
    """Refuse weights that are negative, or too large or too small to be summed."""
    good = (weight == 0) | ((weight >= LIGHTEST) & (weight <= HEAVIEST))
    if good.all():
        return
    bad = weight[~good][0]
    if not bad >= 0 or bad == np.inf:
        raise InvalidInputError(f"{name} has {bad}: weights must be finite and >= 0")
    raise InvalidInputError(
        f"{name} has {bad}: weights must be 0, or between {LIGHTEST:g} and {HEAVIEST:g}; "
        "multiply all of them by one number, or use 0 for rows that do not count"
    )


def _first(bad: Any, columns: Any, rows: Rows, numbers: Sequence[int] | None) -> str:
    """The place and the value of the first invalid value."""
    row, column = np.argwhere(on_host(bad))[0]
    number = None if numbers is None else numbers[row]
    found = on_host(rows.x[row])[column]
    shown = str(found).replace("nan", "NaN").replace("inf", "infinity")
    return f"{cell_place(number, column, columns)} is {shown}"
