"""Tables of doses and concentrations: opening and checking them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixfold.core.engine import refuse_partitions
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array as Floats
from mixfold.estimators._observations import Observations
from mixfold.models.pharmacokinetic import PharmacokineticConditional
from mixfold.sources.object_source import source_for
from mixfold.sources.opening import dict_as_table, is_paths, is_table
from mixfold.sources.optional_arrow import arrow
from mixfold.sources.table import is_numeric

SUBJECT, TIME, DOSE, CONCENTRATION, WEIGHT = range(5)


def concentration_table(data: Any, concentration: str) -> Any:
    """Convert a dict of columns to a table; refuse data without columns.

    Nulls among concentrations become NaN, which dose rows may have.
    """
    refuse_partitions(data)
    if is_paths(data) or source_for(data) is not None:
        return data
    data = dict_as_table(data)
    if not is_table(data):
        raise InvalidInputError(
            f"X is a {type(data).__name__}: a table, a dict of columns, or a path is needed"
        )
    table = arrow().table(data)
    i = table.schema.get_field_index(concentration)
    if i < 0 or not table.column(i).null_count or not is_numeric(table.field(i).type):
        return table
    return table.set_column(i, concentration, table.column(i).cast("float64").fill_null(np.nan))


def check_same(
    data: Observations,
    x: NDArray[Any],
    starts: NDArray[np.intp],
    column: int,
    name: str,
    remedy: str,
) -> None:
    """Refuse a column that changes within a subject."""
    first = np.repeat(x[starts, column], np.diff(np.append(starts, len(x))))
    changed = first != x[:, column]
    if changed.any():
        raise InvalidInputError(
            f"{name} of subject {data.label(x[changed, SUBJECT][0])} changes from row to row: "
            f"{remedy}"
        )


def check_proportional(
    data: Observations, keys: Floats, target: PharmacokineticConditional
) -> None:
    """Refuse subjects with observations where proportional noise is zero."""
    curve = target.curve
    first = np.where(curve.amount > 0, curve.dose_time, np.inf).min(axis=1)
    early = ((target.there > 0) & (curve.time <= first[:, None])).any(axis=1)
    for bad, why in (
        (early, "was observed before any dose had an effect"),
        ((target.y == 0).all(axis=1), "has no concentration other than 0"),
    ):
        if bad.any():
            raise InvalidInputError(
                f"subject {data.label(keys[bad][0])} {why}: error='proportional' has no noise "
                "there; drop such rows, or use error='additive' or 'combined'"
            )
