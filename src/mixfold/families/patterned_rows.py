"""Families in which the missing cells of a row depend on the observed ones."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np

from mixfold.core.family import n_components_of
from mixfold.core.missing_cells import Pattern, filled, has_missing, patterns
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks, BlockShape
from mixfold.families.gaussian import Gaussian
from mixfold.families.observed_columns import Incomplete, ObservedColumns

MOST_NUMBERS = 2**22  # that regressions of patterns may hold

GivenT = TypeVar("GivenT")


class Regressions(Generic[GivenT]):
    """The regressions of patterns under some parameters, kept while they fit into memory.

    `compute` makes the regression of a pattern, which holds about `size` numbers.
    """

    def __init__(self, compute: Callable[[Pattern], GivenT], size: int) -> None:
        self._compute = compute
        self._known: dict[bytes, GivenT] = {}
        self._most = MOST_NUMBERS // size

    def of(self, pattern: Pattern) -> GivenT:
        """The regression of a pattern, computed if it is not known."""
        key = pattern.missing.tobytes()
        found = self._known.get(key)
        if found is None:
            found = self._compute(pattern)
            if len(self._known) < self._most:
                self._known[key] = found
        return found


class PatternedRows(Incomplete, Generic[GivenT]):
    """Families of rows with missing cells, which are integrated out.

    The density of a row is that of its observed cells. Statistics hold the conditional expectation
    of the missing cells and of their products, which depend on the parameters. Rows are grouped by
    the cells that they have, so that the cost follows the number of these patterns.

    Reference: Little and Rubin (2019), Statistical analysis with missing data, chapter 11.
    """

    @property
    def statistics_depend_on_params(self) -> bool:
        return True

    # rows of one pattern

    @abstractmethod
    def regressions(self, params: Any) -> Regressions[GivenT]:
        """The regressions of patterns, for several calls with the same parameters."""

    @abstractmethod
    def pattern_log_density(
        self, params: Any, rows: Array, pattern: Pattern, given: GivenT
    ) -> Array:
        """log p of the observed cells of rows of one pattern, (n, K)."""

    @abstractmethod
    def pattern_sums(
        self, params: Any, rows: Array, responsibilities: Array, pattern: Pattern, given: GivenT
    ) -> Array:
        """The expected sums of rows of one pattern, (K, n_sums)."""

    @abstractmethod
    def pattern_means(self, params: Any, rows: Array, pattern: Pattern, given: GivenT) -> Array:
        """The centres of the missing cells of rows of one pattern, by component, (K, n, m)."""

    @abstractmethod
    def noise(self, params: Any, x: Array, labels: np.ndarray, rng: np.random.Generator) -> Array:
        """Random numbers of every row, from which `pattern_draws` makes missing cells."""

    @abstractmethod
    def pattern_draws(
        self, params: Any, k: int, rows: Array, noise: Array, pattern: Pattern, given: GivenT
    ) -> Array:
        """The missing cells of rows of one pattern, drawn from component k, (n, m)."""

    # all rows

    def log_density(self, params: Any, x: Array, known: Regressions[GivenT] | None = None) -> Array:
        if not has_missing(x):
            return self.complete.log_density(params, x)
        found = np.empty((len(x), n_components_of(params)))
        known = known or self.regressions(params)
        for pattern in patterns(x):
            rows = x[pattern.rows]
            if len(pattern.missing):
                own = self.pattern_log_density(params, rows, pattern, known.of(pattern))
            else:
                own = self.complete.log_density(params, rows)
            found[pattern.rows] = own
        return found

    def sums(
        self,
        params: Any,
        x: Array,
        responsibilities: Array,
        known: Regressions[GivenT] | None = None,
    ) -> Array:
        if not has_missing(x):
            return self.complete.sums(params, x, responsibilities)
        total = np.zeros((n_components_of(params), self.n_sums(x.shape[1])))
        known = known or self.regressions(params)
        for pattern in patterns(x):
            rows, r = x[pattern.rows], responsibilities[pattern.rows]
            if len(pattern.missing):
                total += self.pattern_sums(params, rows, r, pattern, known.of(pattern))
            else:
                total += self.complete.sums(params, rows, r)
        return total

    def expected_cells(self, params: Any, x: Array, responsibilities: Array) -> Array:
        found, known = np.array(x, dtype=np.float64), self.regressions(params)
        for pattern in patterns(x):
            if len(pattern.missing):
                means = self.pattern_means(params, x[pattern.rows], pattern, known.of(pattern))
                mixed = np.einsum("nk,knm->nm", responsibilities[pattern.rows], means)
                found[pattern.rows[:, None], pattern.missing] = mixed
        return found

    def sample_cells(
        self, params: Any, x: Array, labels: np.ndarray, rng: np.random.Generator
    ) -> Array:
        found, known = np.array(x, dtype=np.float64), self.regressions(params)
        noise = self.noise(params, x, labels, rng)
        for pattern in patterns(x):
            if not len(pattern.missing):
                continue
            given = known.of(pattern)
            for k in np.unique(labels[pattern.rows]):
                rows = pattern.rows[labels[pattern.rows] == k]
                drawn = self.pattern_draws(params, int(k), x[rows], noise[rows], pattern, given)
                found[rows[:, None], pattern.missing] = drawn
        return found

    # what is not about cells is that of complete rows

    def n_sums(self, d: int) -> int:
        return self.complete.n_sums(d)

    def block_shapes(self, d: int) -> tuple[BlockShape, ...]:
        return self.complete.block_shapes(d)

    def to_blocks(self, params: Any, table: Array) -> Blocks:
        return self.complete.to_blocks(params, table)

    def to_sums(self, params: Any, blocks: Blocks) -> Array:
        return self.complete.to_sums(params, blocks)

    def blocks_of(self, x: Array, responsibilities: Array) -> Blocks:
        return self.complete.blocks_of(filled(x, np.random.default_rng(0)), responsibilities)

    def expected(self, params: Any, weights: Array) -> Blocks:
        return self.complete.expected(params, weights)

    def maximize(self, blocks: Blocks) -> tuple[Any, int]:
        return self.complete.maximize(blocks)

    def blend(self, a: Any, b: Any, t: float) -> Any:
        return self.complete.blend(a, b, t)

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """Half the squared distance in the columns that both have, as if they were all."""
        return ObservedColumns(Gaussian("diag")).divergence(x, centers, weight)
