"""Conjugate posteriors of independent columns, some of whose cells are missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mixfold.core.conjugate import Conjugate, Prior
from mixfold.core.family import n_components_of
from mixfold.core.independent_columns import (
    SeparableColumns,
    block_of_column,
    join_columns,
    put_columns,
    take_columns,
)
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.core.value import replace


class ObservedConjugate(Conjugate[Any, Any]):
    """Posteriors of complete rows; a missing cell leaves that of its column as it is.

    Columns are independent given the component, and so are their posteriors, whose arrays are
    (K, d, ...).
    """

    def __init__(self, complete: Conjugate, family: SeparableColumns[Any]) -> None:
        self._complete, self._family = complete, family

    def prior(self, params: Any, prior: Prior) -> Any:
        return self._complete.prior(params, prior)

    def check(self, posterior: Any, k: int, d: int) -> None:
        self._complete.check(posterior, k, d)

    def log_evidence(self, posterior: Any, x: Array, weight: Array) -> Array:
        found = np.zeros((len(x), n_components_of(posterior)))
        for j, column in enumerate(x.T):
            there, part = ~np.isnan(column), take_columns(posterior, [j])
            if there.any():
                own = self._complete.log_evidence(part, column[there, None], weight[there])
                found[there] += own
        return found

    def match(
        self, posterior: Any, x: Array, weight: float, responsibilities: Array
    ) -> tuple[Any, int]:
        there = np.flatnonzero(~np.isnan(x)).tolist()
        if not there:
            return posterior, 0
        part = take_columns(posterior, there)
        part, n_degenerate = self._complete.match(part, x[there], weight, responsibilities)
        return put_columns(posterior, there, part), n_degenerate

    def absorb(self, posterior: Any, blocks: Blocks) -> Any:
        (block,) = blocks
        d = next(iter(vars(posterior).values())).shape[1]
        columns, found = self._family.columns_of_statistics(d), []
        for j in range(d):
            own = block_of_column(block, columns, j)
            one = replace(own, weight=own.weight[:, 0])  # all means of a column have the same
            found.append(self._complete.absorb(take_columns(posterior, [j]), (one,)))
        return join_columns(found)

    def combine(self, before: Any, parts: Sequence[Any]) -> Any:
        return self._complete.combine(before, parts)

    def expected(self, posterior: Any, weights: Array) -> Any:
        return self._complete.expected(posterior, weights)

    def expected_log_params(self, posterior: Any, weights: Array) -> tuple[Any, Array]:
        return self._complete.expected_log_params(posterior, weights)

    def intervals(
        self, posterior: Any, weights: Array, level: float
    ) -> dict[str, tuple[Array, Array]]:
        return self._complete.intervals(posterior, weights, level)
