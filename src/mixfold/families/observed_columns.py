"""Families of independent columns, some of whose cells are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mixfold.core.capabilities import conjugate_of
from mixfold.core.conjugate import Conjugate
from mixfold.core.family import Family
from mixfold.core.independent_columns import SeparableColumns
from mixfold.core.missing_cells import filled
from mixfold.core.rows import Array
from mixfold.core.statistics import Block, Blocks, BlockShape, reciprocal
from mixfold.core.support import Support
from mixfold.core.value import replace, value
from mixfold.families._central_values import central_values
from mixfold.families._observed_posteriors import ObservedConjugate
from mixfold.families.same_params import SameParams


class Incomplete(SameParams):
    """Base of families of rows with missing cells: what is not about cells is the same.

    Parameters, their coordinates and their limits are those of the family of complete rows.
    """

    complete: Family

    @property
    def like(self) -> Family:
        return self.complete

    def with_like(self, family: Family) -> Family:
        return replace(self, complete=family)

    def rows_of_like(self, x: NDArray[np.floating]) -> NDArray[np.floating]:
        return filled(x.astype(np.float64), np.random.default_rng(0))

    @property
    def accepts_missing(self) -> bool:
        return True

    def for_complete_rows(self) -> Family:
        return self.complete

    @property
    def n_columns(self) -> int | None:
        return self.complete.n_columns

    def supports(self, d: int) -> tuple[Support, ...]:
        return self.complete.supports(d)

    def out_of_support(self, x: Array) -> np.ndarray | None:
        outside = self.complete.out_of_support(x)
        return None if outside is None else outside & (x == x)  # noqa: PLR0124 - not NaN

    def check_columns(self, d: int) -> None:
        self.complete.check_columns(d)

    def check_params(self, params: Any, k: int, d: int) -> None:
        self.complete.check_params(params, k, d)

    def example(self, k: int, d: int, rng: np.random.Generator) -> Any:
        return self.complete.example(k, d, rng)

    def sample(self, params: Any, labels: np.ndarray, rng: np.random.Generator) -> Array:
        return self.complete.sample(params, labels, rng)

    def n_parameters(self, k: int, d: int) -> int:
        return self.complete.n_parameters(k, d)

    def scipy_log_density(self, params: Any, x: Array) -> Array:
        found: Array = cast(Any, self.complete).scipy_log_density(params, x)
        return found


@value
class ObservedColumns(Incomplete):
    """Independent columns: only the observed cells of a row count.

    log p(x|k) is the sum over the observed columns. The table of sums has the total
    responsibility, then for every column that of the rows that have the cell, and then the sums of
    the family of complete rows; its block has a weight for every mean.
    """

    complete: Family

    @property
    def statistics_depend_on_params(self) -> bool:
        return self.complete.statistics_depend_on_params

    @property
    def conjugate(self) -> Conjugate | None:
        """The conjugate prior of complete rows, if there is one."""
        known = conjugate_of(self.complete)
        return None if known is None else ObservedConjugate(known, self._apart)

    @property
    def _apart(self) -> SeparableColumns:
        return cast(SeparableColumns, self.complete)

    def _columns(self, params: Any, x: Array) -> Iterator[tuple[Family, Any, NDArray[np.bool_]]]:
        """The family, the parameters and the observed rows of each column."""
        for j, column in enumerate(x.T):
            part = None if params is None else self._apart.take_columns(params, [j])
            yield self._apart.of_columns([j]), part, ~np.isnan(column)

    def log_density(self, params: Any, x: Array) -> Array:
        total: Any = 0.0
        for j, (family, part, there) in enumerate(self._columns(params, x)):
            found = family.log_density(part, x[there, j : j + 1])
            if not there.all():
                whole = np.zeros((len(x), found.shape[1]))
                whole[there] = found
                found = whole
            total = total + found
        return np.asarray(total)

    # the missing cells do not depend on the observed ones

    @property
    def columns_are_independent(self) -> bool:
        """Whether they can be divided, which is always so."""
        return True

    def of_columns(self, chosen: Sequence[int]) -> ObservedColumns:
        return replace(self, complete=self._apart.of_columns(chosen))

    def take_columns(self, params: Any, chosen: Sequence[int]) -> Any:
        return self._apart.take_columns(params, chosen)

    def join_columns(self, parts: Sequence[Any]) -> Any:
        """The parameters of all columns, from those of parts that follow one another."""
        return self._apart.join_columns(parts)

    def join_families(self, others: Sequence[Family]) -> ObservedColumns | None:
        """The family of all columns, if they differ in their limits only."""
        complete = [one.complete for one in others if isinstance(one, ObservedColumns)]
        if len(complete) < len(others):
            return None
        joined = self._apart.join_families(complete)
        return None if joined is None else replace(self, complete=joined)

    def columns_of_statistics(self, d: int) -> NDArray[np.intp]:
        """Of the weights of the columns, and of the sums of complete rows."""
        return np.concatenate([np.arange(d), self._apart.columns_of_statistics(d)])

    def given_cells(self, params: Any, row: Array) -> tuple[Family, Any]:
        missing = np.flatnonzero(np.isnan(row)).tolist()
        return self.of_columns(missing), self.take_columns(params, missing)

    def expected_cells(self, params: Any, x: Array, responsibilities: Array) -> Array:
        return np.where(np.isnan(x), central_values(self.complete, params, responsibilities), x)

    def sample_cells(
        self, params: Any, x: Array, labels: np.ndarray, rng: np.random.Generator
    ) -> Array:
        return np.where(np.isnan(x), self.complete.sample(params, labels, rng), x)

    # the table of sums, and blocks

    def n_sums(self, d: int) -> int:
        return d + self.complete.n_sums(d)

    def sums(self, params: Any, x: Array, responsibilities: Array) -> Array:
        d = x.shape[1]
        table = np.empty((responsibilities.shape[1], self.n_sums(d)))
        table[:, 0] = responsibilities.sum(axis=0)
        columns = self.columns_of_statistics(d)
        for j, (family, part, there) in enumerate(self._columns(params, x)):
            own = family.sums(part, x[there, j : j + 1], responsibilities[there])
            table[:, 1 + np.flatnonzero(columns == j)] = own
        return table

    def block_shapes(self, d: int) -> tuple[BlockShape, ...]:
        (shape,) = self.complete.block_shapes(d)
        return (replace(shape, by_cell=True),)

    def to_blocks(self, params: Any, table: Array) -> Blocks:
        columns = self.columns_of_statistics((table.shape[1] - 1) // self.complete.n_sums(1))
        weight = np.maximum(table[:, 1 + columns], 0.0)  # differences may leave the domain
        return self.blocks_of_means(params, weight, table[:, 1:] * reciprocal(weight))

    def blocks_of_means(self, params: Any, weight: Array, means: Array) -> Blocks:
        """Blocks of sums that were divided by their weights, which are those of the columns."""
        d = means.shape[1] // self.complete.n_sums(1)
        return self._apart.blocks_of_means(params, weight[:, d:], means[:, d:])

    def to_sums(self, params: Any, blocks: Blocks) -> Array:
        (block,) = blocks
        d = block.mean.shape[1] // self.complete.block_shapes(1)[0].means
        columns = self._apart.columns_of_statistics(d)
        weight = block.weight[:, np.unique(columns, return_index=True)[1]]
        of_one = replace(block, weight=np.ones(len(weight)))
        sums = self.complete.to_sums(params, (of_one,))[:, 1:] * weight[:, columns]
        return np.hstack([weight.max(axis=1, keepdims=True), weight, sums])

    def blocks_of(self, x: Array, responsibilities: Array) -> Blocks:
        k, d = responsibilities.shape[1], x.shape[1]
        columns, m = self._apart.columns_of_statistics(d), self.block_shapes(d)[0].means
        weight, moments = np.empty((k, d)), np.empty((k, len(columns)))
        for j, (family, _, there) in enumerate(self._columns(None, x)):
            column, r = x[:, j : j + 1], responsibilities * there[:, None]
            if not r.any():  # nothing is known of the column: all components are alike
                column, r = filled(x, np.random.default_rng(0))[:, j : j + 1], responsibilities
            (block,) = family.blocks_of(np.nan_to_num(column), r)
            weight[:, j], moments[:, columns == j] = block.weight, _moments(block)
        means, scatter = moments[:, :m].copy(), moments[:, m:].copy()
        return (_with_weights(Block(weight, means, scatter), weight, columns),)

    def expected(self, params: Any, weights: Array) -> Blocks:
        (block,) = self.complete.expected(params, weights)
        return (replace(block, weight=np.tile(weights[:, None], block.mean.shape[1])),)

    def maximize(self, blocks: Blocks) -> tuple[Any, int]:
        return self.complete.maximize(blocks)

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """The mean over the cells that both have, times the number of columns."""

        def between(j: int, there: NDArray[np.bool_], known: NDArray[np.bool_]) -> Array:
            family, column = self._apart.of_columns([j]), slice(j, j + 1)
            return family.divergence(x[there, column], centers[known, column], weight[there])

        return over_common_cells(x, centers, between)


def over_common_cells(
    x: Array,
    centers: Array,
    between: Callable[[int, NDArray[np.bool_], NDArray[np.bool_]], Array],
) -> Array:
    """The mean over the cells that rows and centres both have, times the number of columns, (n, c).

    `between` is given a column, and which rows and centres have a cell there.
    """
    total, count = np.zeros((len(x), len(centers))), np.zeros((len(x), len(centers)))
    for j, column in enumerate(x.T):
        there, known = ~np.isnan(column), ~np.isnan(centers[:, j])
        if there.any() and known.any():
            pair = np.ix_(there, known)
            total[pair] += between(j, there, known)
            count[pair] += 1.0
    return np.asarray(total * (x.shape[1] / np.maximum(count, 1.0)))


def _moments(block: Block) -> Array:
    """Means, and then the scatter."""
    return np.hstack([block.mean, block.scatter])


def _with_weights(block: Block, weight: Array, columns: NDArray[np.intp]) -> Block:
    """The block whose means have the weights (K, d) of their columns."""
    return Block(weight[:, columns[: block.mean.shape[1]]], block.mean, block.scatter)
