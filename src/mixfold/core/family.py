"""The base class of families: K distributions in batched arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Generic, Self, cast

import numpy as np
from numpy.typing import NDArray

from mixfold.core.arrays import is_array
from mixfold.core.chart import Chart
from mixfold.core.checks import check_array, check_kind
from mixfold.core.params import ParamsT
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks, BlockShape
from mixfold.core.support import Support
from mixfold.core.value import field_names

DRAWS = 1000  # from each component, where a divergence is estimated


class Family(ABC, Generic[ParamsT]):
    """The distributions p(x|k), for k = 1..K at once.

    Most families are exponential families, and need only the methods of `ExponentialFamily`. A
    family that has latent variables of its own, such as the scales of Student's t or the missing
    cells of a row, defines its log density and the sums of an E-step itself. All other methods have
    defaults that follow from these, and can be overridden by better ones. Methods that only some
    learners or kernels need are capabilities: see `core/capabilities.py`.

    The parameters of K components are a value that the family defines, whose arrays have one entry
    per component. An E-step turns rows into an additive table of sums (K, n_sums), whose first
    column holds the total responsibilities. `to_blocks` turns the table into blocks, from which
    `maximize` computes parameters.
    """

    default_init: ClassVar[str] = "k-mle++"  # the default initializer of the family
    given_total: ClassVar[bool] = False  # whether densities are those of rows given their sums

    exchangeable: ClassVar[bool] = True  # whether components can change places

    dependence: ClassVar[str] = "the values of a row depend on one another"  # for error messages
    has_categories: ClassVar[bool] = False  # whether values are codes of categories

    @property
    def has_coordinates(self) -> bool:
        """Whether parameters have the unconstrained coordinates that the class can compute."""
        return True

    @property
    def n_columns(self) -> int | None:
        """The number of columns, if it is fixed."""
        return None

    @property
    def accepts_missing(self) -> bool:
        """Whether NaN stands for a cell that was not observed."""
        return False

    @property
    def statistics_depend_on_params(self) -> bool:
        """Whether the sums of rows with given responsibilities depend on the parameters.

        They do where values that are not observed are replaced by their expectations.
        """
        return False

    # the mathematics

    @abstractmethod
    def log_density(self, params: ParamsT, x: Array) -> Array:
        """log p(x|k), (n, K)."""

    @abstractmethod
    def maximize(self, blocks: Blocks) -> tuple[ParamsT, int]:
        """Parameters of highest expected likelihood, and how many components are degenerate."""

    @abstractmethod
    def sample(self, params: ParamsT, labels: np.ndarray, rng: np.random.Generator) -> Array:
        """One row from component labels[i] for every i."""

    @abstractmethod
    def example(self, k: int, d: int, rng: np.random.Generator) -> ParamsT:
        """Random valid parameters of K components in d columns, for the laws."""

    @abstractmethod
    def n_parameters(self, k: int, d: int) -> int:
        """Free parameters of K components."""

    @classmethod
    def variants(cls) -> list[Self]:
        """Every form of the family that behaves differently, for the laws."""
        return [cls()]

    # support and checks

    @property
    def support(self) -> Support:
        """The support of every column; by default all numbers."""
        return Support()

    @property
    def corner(self) -> float | None:
        """Where densities of all columns have no derivative, if anywhere: laws integrate to it."""
        return None

    def supports(self, d: int) -> tuple[Support, ...]:
        """The support of each of d columns."""
        return (self.support,) * d

    def chart(self, d: int) -> Chart | None:
        """Free coordinates of rows, if the values of a row depend on one another, for the laws."""
        return None

    def into_support(self, x: Array) -> Array:
        """Rows of the support that are made from rows of any finite numbers, for the laws."""
        outside = self.out_of_support(x)
        if outside is None:
            return x
        low, high = np.array([[s.low, s.high] for s in self.supports(x.shape[1])]).T
        return np.where(outside, np.clip(np.abs(x).round(), low, high), x)

    @property
    def support_message(self) -> str:
        """Which values are allowed, for error messages."""
        return self.support.message

    def support_message_of(self, column: int) -> str:
        """Which values are allowed in a column, for error messages."""
        return self.support_message

    def at_column(self, column: int) -> Family:
        """The family of a column, which is this one unless columns have families of their own."""
        return self

    def out_of_support(self, x: Array) -> np.ndarray | None:
        """Where `x` is outside the family's support, (n, d); None if it cannot be.

        `x` may be a tensor on a device; use what arrays and tensors both can do.
        """
        return self.support.excludes(x)

    def limited_columns(self, d: int) -> list[int]:
        """The columns whose limits come from the data, if the family takes any."""
        return list(range(d))

    def check_columns(self, d: int) -> None:
        """Raise an error if d columns are too few for the family."""
        return

    def check_params(self, params: ParamsT, k: int, d: int) -> None:
        """Refuse parameters outside their domain, or of other than K components in d columns.

        The default requires arrays of finite numbers, with the shapes of `example`.
        """
        like = self.example(k, d, np.random.default_rng(0))
        check_kind("components", params, type(like))
        for name in field_names(like):
            check_array(name, getattr(params, name), getattr(like, name).shape)

    # from rows to blocks and back

    @abstractmethod
    def n_sums(self, d: int) -> int:
        """Columns of the table of sums, of which the first is the total responsibility."""

    @abstractmethod
    def sums(self, params: ParamsT, x: Array, responsibilities: Array) -> Array:
        """The table of sums (K, n_sums) of rows with responsibilities (n, K) of any sign."""

    @abstractmethod
    def block_shapes(self, d: int) -> tuple[BlockShape, ...]:
        """The shapes of the blocks."""

    @abstractmethod
    def to_blocks(self, params: ParamsT, table: Array) -> Blocks:
        """Blocks from a table of sums that was computed under `params`."""

    @abstractmethod
    def to_sums(self, params: ParamsT, blocks: Blocks) -> Array:
        """The inverse of `to_blocks`."""

    @abstractmethod
    def blocks_of(self, x: Array, responsibilities: Array) -> Blocks:
        """Blocks of rows with responsibilities (n, K), which must not be negative.

        No parameters are needed: this is for initializers. A component without rows gets the mean
        of all rows.
        """

    @abstractmethod
    def expected(self, params: ParamsT, weights: Array) -> Blocks:
        """The blocks whose maximiser is `params`; `weights` are (K,)."""

    def for_complete_rows(self) -> Family[ParamsT]:
        """The family of rows without missing cells, which has the same parameters."""
        return self

    # distances between rows and components

    @abstractmethod
    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """Divergence (n, c) of rows with these weights from centres, for initializers."""

    def symmetric_kl(self, a: ParamsT, b: ParamsT) -> Array:
        """KL(a_i, b_j) + KL(b_j, a_i), (K, K); by default estimated from rows of all components."""
        one, other = self._mean_differences(a, b), self._mean_differences(b, a)
        return np.maximum(one + other.T, 0.0)

    def _mean_differences(self, a: ParamsT, b: ParamsT) -> Array:
        """Means over rows of component i of a of log p_i(x) under a less log p_j(x) under b."""
        k, rng = n_components_of(a), np.random.default_rng(0)
        x = self.sample(a, np.repeat(np.arange(k), DRAWS), rng)
        own, others = self.log_density(a, x), self.log_density(b, x)
        rows = np.arange(len(x)).reshape(k, DRAWS)
        found = [own[rows[i], i, None] - others[rows[i]] for i in range(k)]
        return np.stack([each.mean(axis=0) for each in found])

    # derived methods, which can be overridden

    def blend(self, a: ParamsT, b: ParamsT, t: float) -> ParamsT:
        """Interpolate between `a` (t=0) and `b` (t=1), linearly in the mean parameters."""
        whole = np.ones(n_components_of(a))
        pairs = zip(self.expected(a, whole), self.expected(b, whole), strict=True)
        return self.maximize(tuple(one * (1.0 - t) + other * t for one, other in pairs))[0]

    def sort_keys(self, params: ParamsT) -> Array:
        """Numbers (K, m) by which components can be sorted; by default all parameters."""
        k, arrays = n_components_of(params), list(_arrays(params))
        return np.hstack([array.reshape(k, -1) for array in arrays if len(array) == k])

    def attributes(self, params: ParamsT) -> dict[str, Array]:
        """The fitted attributes of an estimator, by name."""
        return {name: getattr(params, name) for name in field_names(params)}


def _arrays(thing: Any) -> Iterator[Array]:
    """All arrays of a tree of values, in order."""
    if is_array(thing):
        yield cast(Array, thing)
    elif isinstance(thing, tuple | list):
        for item in thing:
            yield from _arrays(item)
    elif thing is not None:
        for name in field_names(thing):
            yield from _arrays(getattr(thing, name))


def n_components_of(params: object) -> int:
    """The number of components that parameters are of, which is the length of their first array."""
    return len(next(_arrays(params)))


def n_components_with(found: NDArray[np.bool_]) -> int:
    """In how many components something was found anywhere, (K, ...)."""
    if not np.count_nonzero(found):  # as in nearly all passes
        return 0
    return int(found.reshape(len(found), -1).any(axis=1).sum())


def groups(responsibilities: Array, weight: Array) -> Iterator[tuple[int, np.ndarray, Array]]:
    """For each component with rows, the numbers of its rows and their weights, which sum to 1.

    `weight` is the sum of each column of the responsibilities.
    """
    for k in np.flatnonzero(weight):
        members = np.flatnonzero(responsibilities[:, k])
        yield int(k), members, responsibilities[members, k] / weight[k]
