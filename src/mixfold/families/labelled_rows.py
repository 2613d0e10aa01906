"""Families of rows of which some have a known label."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mixfold.core.family import Family
from mixfold.core.family_change import FamilyChange
from mixfold.core.rows import Array, Rows
from mixfold.core.statistics import Blocks, BlockShape
from mixfold.core.support import Support
from mixfold.core.value import replace, value
from mixfold.families.same_params import SameParams

UNKNOWN = -1.0


@value
class LabelledRows(SameParams):
    """Rows with one column more, the last, which holds the code of a label, or -1 for none.

    p(x, label | k) is p(x | k) if rows with the label may belong to component k, else zero. A row
    without a label may belong to any. So the likelihood of a row with the label of one component
    is w_k p(x | k), and its responsibilities are one for it and zero for the others. `allowed`
    (C, K) are the components that rows with each of C labels may belong to.
    """

    exchangeable: ClassVar[bool] = False

    family: Family
    allowed: NDArray[np.bool_]

    def __repr__(self) -> str:
        return f"{self.family!r} of rows with labels"

    @property
    def like(self) -> Family:
        return self.family

    def with_like(self, family: Family) -> Family:
        return replace(self, family=family)

    def rows_of_like(self, x: NDArray[np.floating]) -> NDArray[np.floating]:
        return x[:, :-1]

    def allowed_in(self, x: NDArray[Any]) -> NDArray[np.bool_]:
        """Which components rows may belong to, (n, K)."""
        everyone = np.ones((1, self.allowed.shape[1]), dtype=bool)  # of code -1, the last
        table = np.concatenate([self.allowed, everyone])
        return np.asarray(table[x[:, -1].astype(np.intp)])

    def groups(self, x: NDArray[Any]) -> list[tuple[int, NDArray[np.bool_]]]:
        """The codes that occur, in order, and which rows have each."""
        codes = x[:, -1].astype(np.intp)
        found = np.flatnonzero(np.bincount(codes + 1)) - 1
        return [(int(code), codes == code) for code in found]

    # rows with a label

    @property
    def accepts_missing(self) -> bool:
        return self.family.accepts_missing

    def for_complete_rows(self) -> Family:
        return replace(self, family=self.family.for_complete_rows())

    @property
    def statistics_depend_on_params(self) -> bool:
        return self.family.statistics_depend_on_params

    @property
    def n_columns(self) -> int | None:
        return None if self.family.n_columns is None else self.family.n_columns + 1

    def supports(self, d: int) -> tuple[Support, ...]:
        return (*self.family.supports(d - 1), self._codes)

    def out_of_support(self, x: Array) -> np.ndarray | None:
        found = np.zeros(x.shape, dtype=bool)
        for columns, outside in (
            (slice(-1), self.family.out_of_support(x[:, :-1])),
            (slice(-1, None), self._codes.excludes(x[:, -1:])),
        ):
            if outside is not None:
                found[:, columns] = outside
        return found

    @property
    def _codes(self) -> Support:
        return Support(UNKNOWN, float(len(self.allowed) - 1), whole=True)

    def check_columns(self, d: int) -> None:
        self.family.check_columns(d - 1)

    def check_params(self, params: Any, k: int, d: int) -> None:
        self.family.check_params(params, k, d - 1)

    def limited_columns(self, d: int) -> list[int]:
        return self.family.limited_columns(d - 1)

    def n_parameters(self, k: int, d: int) -> int:
        return self.family.n_parameters(k, d - 1)

    def example(self, k: int, d: int, rng: np.random.Generator) -> Any:
        return self.family.example(k, d - 1, rng)

    def sample(self, params: Any, labels: np.ndarray, rng: np.random.Generator) -> Array:
        drawn = self.family.sample(params, labels, rng)
        return np.column_stack([drawn, np.full(len(drawn), UNKNOWN)])

    def log_density(self, params: Any, x: Array) -> Array:
        found = self.family.log_density(params, x[:, :-1])
        return np.where(self.allowed_in(x), found, -np.inf)

    # everything else is that of the other columns

    def n_sums(self, d: int) -> int:
        return self.family.n_sums(d - 1)

    def sums(self, params: Any, x: Array, responsibilities: Array) -> Array:
        return self.family.sums(params, x[:, :-1], responsibilities)

    def block_shapes(self, d: int) -> tuple[BlockShape, ...]:
        return self.family.block_shapes(d - 1)

    def to_blocks(self, params: Any, table: Array) -> Blocks:
        return self.family.to_blocks(params, table)

    def to_sums(self, params: Any, blocks: Blocks) -> Array:
        return self.family.to_sums(params, blocks)

    def blocks_of(self, x: Array, responsibilities: Array) -> Blocks:
        return self.family.blocks_of(x[:, :-1], responsibilities)

    def expected(self, params: Any, weights: Array) -> Blocks:
        return self.family.expected(params, weights)

    def maximize(self, blocks: Blocks) -> tuple[Any, int]:
        return self.family.maximize(blocks)

    def blend(self, a: Any, b: Any, t: float) -> Any:
        return self.family.blend(a, b, t)

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        return self.family.divergence(x[:, :-1], centers[:, :-1], weight)


def without_labels(rows: Rows) -> Rows:
    """The rows without the column of labels."""
    return Rows(rows.x[:, :-1], rows.weight)


class WithLabels:
    """A change of the family of rows, where these have labels."""

    def __init__(self, change: FamilyChange) -> None:
        self._change = change

    def family(self, family: Family) -> Family:
        """The family of rows with labels, whose other columns have changed."""
        assert isinstance(family, LabelledRows)
        return family.with_like(self._change.family(family.family))

    def components(self, family: Family, params: Any) -> Any:
        """The parameters of the other family."""
        assert isinstance(family, LabelledRows)
        return self._change.components(family.family, params)

    def blocks(self, family: Family, blocks: Blocks, d: int) -> Blocks:
        """The blocks of the other family; d counts the column of labels."""
        assert isinstance(family, LabelledRows)
        return self._change.blocks(family.family, blocks, d - 1)
