"""Families of independent columns, some of whose cells are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mixfold.core.capabilities import UnconstrainedCoordinates, conjugate_of, has_coordinates
from mixfold.core.conjugate import Conjugate
from mixfold.core.data_limits import CanDegenerate, LimitsFromData, limits_of
from mixfold.core.family import Family
from mixfold.core.independent_columns import SeparableColumns
from mixfold.core.missing_cells import filled
from mixfold.core.rows import Array
from mixfold.core.statistics import Block, Blocks, BlockShape
from mixfold.core.support import Support
from mixfold.core.value import replace, value
from mixfold.families._central_values import central_values
from mixfold.families._observed_posteriors import ObservedConjugate


class Incomplete(Family):
    """Base of families of rows with missing cells: what is not about cells is the same.

    Parameters, their coordinates and their limits are those of the family of complete rows.
    """

    complete: Family

    @property
    def accepts_missing(self) -> bool:
        return True

    def for_complete_rows(self) -> Family:
        return self.complete

    @property
    def default_init(self) -> str:  # type: ignore[override]
        """The initializer of the family of complete rows."""
        return self.complete.default_init

    @property
    def has_categories(self) -> bool:  # type: ignore[override]
        """Whether values are codes of categories."""
        return self.complete.has_categories

    @property
    def n_columns(self) -> int | None:
        return self.complete.n_columns

    def supports(self, d: int) -> tuple[Support, ...]:
        return self.complete.supports(d)

    def support_message_of(self, column: int) -> str:
        return self.complete.support_message_of(column)

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

    def attributes(self, params: Any) -> dict[str, Array]:
        return self.complete.attributes(params)

    def symmetric_kl(self, a: Any, b: Any) -> Array:
        return self.complete.symmetric_kl(a, b)

    def sort_keys(self, params: Any) -> Array:
        return self.complete.sort_keys(params)

    def scipy_log_density(self, params: Any, x: Array) -> Array:
        found: Array = cast(Any, self.complete).scipy_log_density(params, x)
        return found

    # capabilities of the family of complete rows

    @property
    def has_coordinates(self) -> bool:
        return has_coordinates(self.complete)

    @property
    def _coordinates(self) -> UnconstrainedCoordinates:
        return cast(UnconstrainedCoordinates, self.complete)

    def unconstrained(self, params: Any) -> Array:
        """Coordinates of the parameters."""
        return self._coordinates.unconstrained(params)

    def constrained(self, coordinates: Array, like: Any) -> Any:
        """The inverse of `unconstrained`."""
        return self._coordinates.constrained(coordinates, like)

    def coordinate_scales(self, params: Any) -> Array:
        """The natural length of each coordinate."""
        return self._coordinates.coordinate_scales(params)

    def degenerate(self, params: Any, weights: Array) -> NDArray[np.bool_]:
        """Where components are at a limit."""
        if isinstance(self.complete, CanDegenerate):
            return self.complete.degenerate(params, weights)
        return np.zeros((len(weights), self.sort_keys(params).shape[1]), dtype=bool)

    @property
    def takes_limits(self) -> bool:
        """Whether limits come from the data."""
        return limits_of(self.complete) is not None

    @property
    def _limits(self) -> LimitsFromData:
        return cast(LimitsFromData, self.complete)

    def with_limits(self, x: NDArray[np.floating]) -> Family:
        """Limits from the observed cells."""
        rows = filled(x.astype(np.float64), np.random.default_rng(0))
        return replace(self, complete=self._limits.with_limits(rows))

    def with_limits_of(self, params: Any, weights: Array) -> Family:
        """Limits from parameters."""
        return replace(self, complete=self._limits.with_limits_of(params, weights))

    def without_limits(self) -> Family:
        """Without limits from data."""
        return replace(self, complete=self._limits.without_limits()) if self.takes_limits else self

    def common_limits(self, others: list[Any]) -> Family:
        """Limits that suit all data."""
        complete = [other.complete for other in others]
        return replace(self, complete=self._limits.common_limits(complete))


@value
class ObservedColumns(Incomplete):
    """Independent columns: only the observed cells of a row count.

    log p(x|k) is the sum over the observed columns, and every column has blocks of its own, whose
    weights are the responsibilities of the rows that have the cell.
    """

    complete: Family

    @property
    def statistics_depend_on_params(self) -> bool:
        return self.complete.statistics_depend_on_params

    @property
    def conjugate(self) -> Conjugate | None:
        """The conjugate prior of complete rows, if there is one."""
        known = conjugate_of(self.complete)
        return None if known is None else ObservedConjugate(known)

    @property
    def _apart(self) -> SeparableColumns:
        return cast(SeparableColumns, self.complete)

    def _columns(self, params: Any, x: Array) -> Iterator[tuple[Family, Any, NDArray[np.bool_]]]:
        """The family, the parameters and the observed rows of each column."""
        for j, column in enumerate(x.T):
            part = None if params is None else self._apart.take_columns(params, [j])
            yield self._apart.of_columns([j]), part, ~np.isnan(column)

    def _families(self, d: int) -> list[Family]:
        return [self._apart.of_columns([j]) for j in range(d)]

    def divided(self, params: Any) -> Iterator[tuple[Family, Any]]:
        """The family of complete cells and the parameters of each column."""
        for j, family in enumerate(self._families(_width(params))):
            yield family, self._apart.take_columns(params, [j])

    def _tables(self, params: Any, table: Array) -> Iterator[tuple[Family, Any, Array]]:
        """The family, the parameters and the table of sums of each column."""
        width = self.complete.n_sums(1)
        for j in range((table.shape[1] - 1) // width):
            first = 1 + j * width
            part = self._apart.take_columns(params, [j])
            yield self._apart.of_columns([j]), part, table[:, first : first + width]

    def _cut(self, blocks: Blocks) -> Iterator[Blocks]:
        width = len(self.complete.block_shapes(1))
        return (blocks[i : i + width] for i in range(0, len(blocks), width))

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

    def of_columns(self, chosen: Sequence[int]) -> ObservedColumns:
        return replace(self, complete=self._apart.of_columns(chosen))

    def take_columns(self, params: Any, chosen: Sequence[int]) -> Any:
        return self._apart.take_columns(params, chosen)

    def given_cells(self, params: Any, row: Array) -> tuple[Family, Any]:
        missing = np.flatnonzero(np.isnan(row)).tolist()
        return self.of_columns(missing), self.take_columns(params, missing)

    def expected_cells(self, params: Any, x: Array, responsibilities: Array) -> Array:
        return np.where(np.isnan(x), central_values(self.complete, params, responsibilities), x)

    def sample_cells(
        self, params: Any, x: Array, labels: np.ndarray, rng: np.random.Generator
    ) -> Array:
        return np.where(np.isnan(x), self.complete.sample(params, labels, rng), x)

    def n_sums(self, d: int) -> int:
        return 1 + d * self.complete.n_sums(1)

    def sums(self, params: Any, x: Array, responsibilities: Array) -> Array:
        tables = [
            family.sums(part, x[there, j : j + 1], responsibilities[there])
            for j, (family, part, there) in enumerate(self._columns(params, x))
        ]
        return np.hstack([responsibilities.sum(axis=0)[:, None], *tables])

    def block_shapes(self, d: int) -> tuple[BlockShape, ...]:
        return self.complete.block_shapes(1) * d

    def to_blocks(self, params: Any, table: Array) -> Blocks:
        parts = (family.to_blocks(part, own) for family, part, own in self._tables(params, table))
        return tuple(block for part in parts for block in part)

    def to_sums(self, params: Any, blocks: Blocks) -> Array:
        tables = [
            self._apart.of_columns([j]).to_sums(self._apart.take_columns(params, [j]), own)
            for j, own in enumerate(self._cut(blocks))
        ]
        weight = np.max([table[:, 0] for table in tables], axis=0)
        return np.hstack([weight[:, None], *tables])

    def blocks_of(self, x: Array, responsibilities: Array) -> Blocks:
        found: list[Block] = []
        for j, (family, _, there) in enumerate(self._columns(None, x)):
            column, r = x[:, j : j + 1], responsibilities * there[:, None]
            if not r.any():  # nothing is known of the column: all components are alike
                column, r = filled(x, np.random.default_rng(0))[:, j : j + 1], responsibilities
            found += family.blocks_of(np.nan_to_num(column), r)
        return tuple(found)

    def expected(self, params: Any, weights: Array) -> Blocks:
        found: list[Block] = []
        for family, part in self.divided(params):
            found += family.expected(part, weights)
        return tuple(found)

    def maximize(self, blocks: Blocks) -> tuple[Any, int]:
        parts = []
        for j, own in enumerate(self._cut(blocks)):
            weighted = tuple(_with_weight(block) for block in own)
            parts.append(self._apart.of_columns([j]).maximize(weighted))
        count = min(sum(n for _, n in parts), len(blocks[0].weight))
        return self._apart.join_columns([params for params, _ in parts]), count

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


def _with_weight(block: Block) -> Block:
    """The block with equal weights if it has none, as in a column of which no cell is observed."""
    return block if block.weight.any() else replace(block, weight=np.ones_like(block.weight))


def _width(params: Any) -> int:
    """The number of columns of parameters whose arrays are (K, d, ...)."""
    first = next(iter(vars(params).values()))
    return int(first.shape[1])
