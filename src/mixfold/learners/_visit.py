"""Differences between the new and the stored contributions of rows."""

from __future__ import annotations

import numpy as np

from mixfold.core.backend import Backend
from mixfold.core.params import Params
from mixfold.core.rows import Array, Rows
from mixfold.learners._memory import Memory


class Visit:
    """Adds the new minus the stored statistics of rows to sums, and stores the new ones.

    The last entry of the sums is the weight of the rows.
    """

    def __init__(self, backend: Backend, params: Params, precision: str) -> None:
        self.backend, self.params, self.precision = backend, params, precision
        self.fresh: list[tuple[int, Array]] = []

    def expectations(self, params: Params, rows: Rows) -> tuple[Array, Array]:
        """log p(x), and expectations, rounded to the precision of the memory."""
        log_density, expectations = self.backend.posterior(params, rows)
        assert expectations is not None
        return log_density, expectations.astype(self.precision).astype(np.float64)

    def add(self, rows: Rows, sums: Array, first: int, old: Array | float) -> Array:
        """Add rows from number `first` of the pass on to the sums."""
        log_density, expectations = self.expectations(self.params, rows)
        moments = self.backend.moments(self.params, rows, expectations - old, sums[:-1])
        weights, weight = rows.weights(), sums[-1]
        for i in range(0, len(rows), self.backend.tile):
            tile = slice(i, i + self.backend.tile)
            moments[0] += weights[tile] @ log_density[tile]
            weight += weights[tile].sum()
        self.fresh.append((first, expectations))
        return np.append(moments, weight)

    def written(self, memory: Memory | None) -> Memory | None:
        """The memory with the new expectations of the rows."""
        if memory is not None:
            for first, expectations in self.fresh:
                memory = memory.written(first, expectations)
        return memory
