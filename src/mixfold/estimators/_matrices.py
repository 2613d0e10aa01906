"""Model matrices that are finite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mixfold.core.errors import InvalidInputError
from mixfold.core.limits import LARGEST
from mixfold.core.places import row_place
from mixfold.core.rows import Array, Rows

if TYPE_CHECKING:
    from mixfold.estimators._effects import Design


def finite_matrices(
    design: Design, rows: Rows, numbers: Sequence[int], response: bool = True
) -> tuple[Array, Array, Array]:
    """y, A and B of rows (group, variables ...), whose row numbers error messages give."""
    x = rows.x[:, 1:].astype(np.float64, copy=False)
    y, a, b = design.matrices(x, response=response)
    names = [*design.names, "the response", *design.random_names]
    check_usable(names, np.column_stack([a, y, b]), numbers)
    return y, a, b


def check_usable(names: list[str], table: Array, numbers: Sequence[int]) -> None:
    """Refuse values that are not finite, or too large, by the names of their columns."""
    usable = np.abs(table) < LARGEST  # false for NaN
    if not usable.all():
        row, column = np.argwhere(~usable)[0]
        found = table[row, column]
        remedy = (
            f"values must be below {LARGEST:g} in size: use another unit"
            if np.isfinite(found)
            else "rows must be finite: drop or fill such rows"
        )
        raise InvalidInputError(f"{row_place(numbers[row])}: {names[column]} is {found}; {remedy}")
