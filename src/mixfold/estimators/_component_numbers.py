"""Numbers of components that a selection compares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from mixfold.core.arrays import nan_to_zero
from mixfold.core.checks import check_whole
from mixfold.core.errors import InvalidInputError
from mixfold.core.missing_cells import has_missing
from mixfold.core.rows import Rows
from mixfold.estimators._candidate_starts import InMemory

FIRST_ROWS = 4096  # among which enough different ones are looked for


def numbers(n_components: Any) -> list[int]:
    """The numbers of components in ascending order, each once."""
    given = [n_components] if isinstance(n_components, Integral) else n_components
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidInputError(
            f"n_components is {n_components!r}: give numbers such as range(1, 10), or one number"
        )
    found = list(given)
    if not found:
        raise InvalidInputError(
            f"n_components is {n_components!r}, which is empty: give at least one number, such as "
            "range(1, 10)"
        )
    for number in found:
        check_whole("a number in n_components", number)
    return sorted({int(number) for number in found})


def check_distinct(wanted: Sequence[int], memory: InMemory) -> None:
    """Refuse more components than there are different rows."""
    rows = memory.rows.whole()
    if not memory.whole or _n_distinct(rows.cut(0, FIRST_ROWS)) >= wanted[-1]:
        return
    known = _n_distinct(rows)
    if known < wanted[-1]:
        raise InvalidInputError(
            f"n_components has {wanted[-1]}, but the data have {known} distinct rows "
            f"(n_samples = {len(rows)}): leave out numbers above {known}"
        )


def _n_distinct(rows: Rows) -> int:
    """How many different rows of positive weight there are."""
    x = rows.x[rows.weights() > 0.0]
    cells = np.hstack([nan_to_zero(x), np.isnan(x)]) if has_missing(x) else x
    return len(np.unique(cells, axis=0))
