"""The base class of exponential families: K distributions in batched arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Generic, Self

import numpy as np

from mixfold.core.checks import check_array, check_kind
from mixfold.core.params import ParamsT
from mixfold.core.rows import Array
from mixfold.core.statistics import Block, Blocks, BlockShape
from mixfold.core.support import Support
from mixfold.core.value import field_names


class Family(ABC, Generic[ParamsT]):
    """log p(x|k) = <eta_k, t(x)> - A(eta_k) + log h(x), for k = 1..K at once.

    Abstract methods are the sufficient statistics t, the base measure h, the natural parameters
    eta, the log-normaliser A, its gradient (the mean of t), the maximum-likelihood estimate, and
    sampling. All other methods have defaults that follow from these, and can be overridden by
    better ones, such as moments about means. Methods that only some learners or kernels need are
    capabilities: see `core/capabilities.py`.

    The parameters of K components are a value that the family defines, whose arrays have one entry
    per component. An E-step turns rows into an additive table of sums (K, n_sums), whose first
    column holds the total responsibilities. `to_blocks` turns the table into blocks, from which
    `maximize` computes parameters.
    """

    default_init: ClassVar[str] = "k-mle++"  # the default initializer of the family
    accepts_missing: ClassVar[bool] = False  # whether NaN stands for a missing value
    given_total: ClassVar[bool] = False  # whether densities are those of rows given their sums
    statistics_depend_on_params: ClassVar[bool] = False
    """Whether the sums of rows with given responsibilities depend on the parameters, as they do
    where values that are not observed are replaced by their expectations."""

    # the mathematics

    @abstractmethod
    def n_statistics(self, d: int) -> int:
        """Length p of t(x) for rows of d columns."""

    @abstractmethod
    def sufficient_statistics(self, x: Array) -> Array:
        """t(x), (n, p)."""

    @abstractmethod
    def log_base_measure(self, x: Array) -> Array:
        """log h(x), (n,)."""

    @abstractmethod
    def to_natural(self, params: ParamsT) -> Array:
        """eta, (K, p)."""

    @abstractmethod
    def log_normalizer(self, eta: Array) -> Array:
        """A(eta), (K,)."""

    @abstractmethod
    def mean(self, params: ParamsT) -> Array:
        """E[t(x)] = grad A(eta), (K, p)."""

    @abstractmethod
    def maximize(self, blocks: Blocks) -> tuple[ParamsT, int]:
        """Parameters of highest expected likelihood, and how many components are degenerate."""

    @abstractmethod
    def sample(self, params: ParamsT, labels: np.ndarray, rng: np.random.Generator) -> Array:
        """One row from component labels[i] for every i."""

    @abstractmethod
    def example(self, k: int, d: int, rng: np.random.Generator) -> ParamsT:
        """Random valid parameters of K components in d columns, for the laws."""

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

    @property
    def support_message(self) -> str:
        """Which values are allowed, for error messages."""
        return self.support.message

    def out_of_support(self, x: Array) -> np.ndarray | None:
        """Where `x` is outside the family's support, (n, d); None if it cannot be.

        `x` may be a tensor on a device; use what arrays and tensors both can do.
        """
        return self.support.excludes(x)

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

    def n_sums(self, d: int) -> int:
        """Columns of the table of sums: the total responsibility, then the sums of t(x)."""
        return 1 + self.n_statistics(d)

    def sums(self, params: ParamsT, x: Array, responsibilities: Array) -> Array:
        """The table of sums (K, n_sums) of rows with responsibilities (n, K) of any sign."""
        t = np.ascontiguousarray(self.sufficient_statistics(x))
        weighted = responsibilities.T[:, :, None] * t
        return np.hstack([responsibilities.sum(axis=0)[:, None], weighted.sum(axis=1)])

    def block_shapes(self, d: int) -> tuple[BlockShape, ...]:
        """The shapes of the blocks."""
        return (BlockShape(self.n_statistics(d)),)

    def to_blocks(self, params: ParamsT, table: Array) -> Blocks:
        """Blocks from a table of sums that was computed under `params`."""
        return (Block.of_sums(table[:, 0], table[:, 1:]),)

    def to_sums(self, params: ParamsT, blocks: Blocks) -> Array:
        """The inverse of `to_blocks`."""
        (block,) = blocks
        return np.hstack([block.weight[:, None], block.sums()])

    def blocks_of(self, x: Array, responsibilities: Array) -> Blocks:
        """Blocks of rows with responsibilities (n, K), which must not be negative.

        No parameters are needed: this is for initializers. A component without rows gets the mean
        of all rows.
        """
        t = self.sufficient_statistics(x)
        weight = responsibilities.sum(axis=0)
        mean = np.tile(responsibilities.sum(axis=1) @ t / weight.sum(), (len(weight), 1))
        for k, members, normalized in groups(responsibilities, weight):
            mean[k] = normalized @ t[members]
        return (Block.of_means(weight, mean),)

    def expected(self, params: ParamsT, weights: Array) -> Blocks:
        """The blocks whose maximiser is `params`; `weights` are (K,)."""
        return (Block.of_means(weights.copy(), self.mean(params).copy()),)

    # derived methods, which can be overridden

    def log_density(self, params: ParamsT, x: Array) -> Array:
        """log p(x|k), (n, K)."""
        eta = self.to_natural(params)
        linear = self.sufficient_statistics(x) @ eta.T
        return np.asarray(linear - self.log_normalizer(eta) + self.log_base_measure(x)[:, None])

    def blend(self, a: ParamsT, b: ParamsT, t: float) -> ParamsT:
        """Interpolate between `a` (t=0) and `b` (t=1), linearly in the mean parameters."""
        whole = np.ones(len(self.mean(a)))
        pairs = zip(self.expected(a, whole), self.expected(b, whole), strict=True)
        return self.maximize(tuple(one * (1.0 - t) + other * t for one, other in pairs))[0]

    def symmetric_kl(self, a: ParamsT, b: ParamsT) -> Array:
        """KL(a_i, b_j) + KL(b_j, a_i) = <eta_i - eta_j, mean_i - mean_j>, (K, K)."""
        eta = self.to_natural(a)[:, None] - self.to_natural(b)[None]
        mean = self.mean(a)[:, None] - self.mean(b)[None]
        return np.asarray((eta * mean).sum(axis=2))

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """Divergence (n, c) of rows from centres, for initializers; `weight` is that of the rows.

        The Bregman divergence of the dual log-normaliser: the log density of a row where its mean
        parameter is t(x), less where it is t(c).
        """
        t = self.sufficient_statistics(x)
        own, other = (self._at_means(s) for s in (t, self.sufficient_statistics(centers)))
        best = (t * own).sum(axis=1) - self.log_normalizer(own)
        return np.asarray(best[:, None] - (t @ other.T - self.log_normalizer(other)))

    def _at_means(self, t: Array) -> Array:
        """Natural parameters of components with these means, or as close as possible."""
        params, _ = self.maximize((Block.of_means(np.ones(len(t)), t),))
        return self.to_natural(params)

    def n_parameters(self, k: int, d: int) -> int:
        """Free parameters of K components."""
        return k * self.n_statistics(d)

    def attributes(self, params: ParamsT) -> dict[str, Array]:
        """The fitted attributes of an estimator, by name."""
        return {name: getattr(params, name) for name in field_names(params)}


def groups(responsibilities: Array, weight: Array) -> Iterator[tuple[int, np.ndarray, Array]]:
    """For each component with rows, the numbers of its rows and their weights, which sum to 1.

    `weight` is the sum of each column of the responsibilities.
    """
    for k in np.flatnonzero(weight):
        members = np.flatnonzero(responsibilities[:, k])
        yield int(k), members, responsibilities[members, k] / weight[k]
