"""What an exponential family is: K distributions in batched arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, Self

import numpy as np

from mixfold.core.checks import check_array
from mixfold.core.conjugate import Conjugate
from mixfold.core.rows import Array
from mixfold.core.statistics import Scatter, Statistics
from mixfold.core.support import Support
from mixfold.core.value import field_names

Form = Literal["linear", "triangular", "diagonal", "factor"]


class Family(ABC):
    """log p(x|k) = <eta_k, t(x)> - A(eta_k) + log h(x), for k = 1..K at once.

    Sufficient statistics are the columns themselves and, if `scatter` says so, their squares
    or all their products. A family with `hidden` columns has them in its statistics, after the
    others, as they are expected given x and k.
    """

    support: ClassVar[Support] = Support()
    """Where the values of every column can lie."""

    @property
    def needs(self) -> str:
        """What values must be, for errors."""
        return self.support.message

    @property
    def form(self) -> Form:
        """Which kernel computes this family."""
        return "linear"

    @property
    def scatter(self) -> Scatter:
        """Which second moments are sufficient."""
        return "none"

    @property
    def hidden(self) -> int:
        """How many latent columns a row has besides its label."""
        return 0

    @property
    def conjugate(self) -> Conjugate | None:
        """The conjugate prior of its components, where it has one."""
        return None

    @classmethod
    def variants(cls) -> list[Self]:
        """Every form of the family that behaves differently, for the laws."""
        return [cls()]

    @abstractmethod
    def example(self, k: int, d: int, rng: np.random.Generator) -> Any:
        """Random valid parameters, for the laws."""

    def outside(self, x: Array) -> np.ndarray | None:
        """Where `x` lies outside the family's support, (n, d); None if that cannot be.

        `x` may be a tensor on a device; use what arrays and tensors both can do.
        """
        return self.support.excludes(x)

    def check_columns(self, d: int) -> None:
        """Refuse data of d columns, where that is too few."""
        return

    def check_params(self, params: Any, k: int, d: int) -> None:
        """Refuse parameters outside their domain, or of other than K components in d columns.

        Here: arrays for K components whose numbers are finite.
        """
        for name in field_names(params):
            array = getattr(params, name)
            check_array(name, array, (k, *array.shape[1:]))

    def sufficient(self, x: Array) -> Array:
        """t(x), (n, p)."""
        return x

    @abstractmethod
    def log_base(self, x: Array) -> Array:
        """log h(x), (n,)."""

    @abstractmethod
    def natural(self, params: Any) -> Array:
        """eta, (K, p)."""

    @abstractmethod
    def log_normalizer(self, eta: Array) -> Array:
        """A(eta), (K,)."""

    @abstractmethod
    def mean(self, params: Any) -> Array:
        """E[t(x)] = grad A(eta), (K, p)."""

    @abstractmethod
    def expected(self, params: Any, weights: Array) -> Statistics:
        """The statistics of which `params` is the maximiser."""

    @abstractmethod
    def maximize(self, statistics: Statistics) -> tuple[Any, int]:
        """Parameters of highest expected likelihood, and how many components were floored."""

    @abstractmethod
    def sample(self, params: Any, labels: np.ndarray, rng: np.random.Generator) -> Array:
        """One row from component labels[i] for every i."""

    @abstractmethod
    def scale(self, x: Array, weight: Array) -> Array:
        """The typical size of each column, (d,): what divergences are measured in."""

    @abstractmethod
    def divergence(self, x: Array, centers: Array, scale: Array) -> Array:
        """Bregman divergence of the dual log-normaliser from rows to centres, (n, c)."""

    def symmetric_kl(self, a: Any, b: Any) -> Array:
        """KL(a_i, b_j) + KL(b_j, a_i) = <eta_i - eta_j, mean_i - mean_j>, (K, K)."""
        eta = self.natural(a)[:, None] - self.natural(b)[None]
        mean = self.mean(a)[:, None] - self.mean(b)[None]
        return np.asarray((eta * mean).sum(axis=2))

    def turned(self, statistics: Statistics, like: Statistics) -> Statistics:
        """With hidden columns rotated to be as near as can be to those of other statistics."""
        return statistics

    @abstractmethod
    def unconstrained(self, params: Any) -> Array:
        """Coordinates (K, q) in which every vector is a valid parameter."""

    @abstractmethod
    def constrained(self, coordinates: Array, like: Any) -> Any:
        """The inverse of `unconstrained`; `like` gives the shape."""

    @abstractmethod
    def units(self, params: Any) -> Array:
        """The natural length of each unconstrained coordinate, (K, q)."""

    @abstractmethod
    def blend(self, a: Any, b: Any, t: float) -> Any:
        """Parameters on the line from `a` (t=0) to `b` (t=1)."""

    @abstractmethod
    def extent(self, params: Any) -> tuple[float, float, float]:
        """Largest location, smallest and largest scale: what truncation regions bound."""

    @abstractmethod
    def n_parameters(self, k: int, d: int) -> int:
        """Free parameters of K components."""

    def local(self, params: Any, x: Array) -> Array:
        """Rows in the coordinates in which statistics are summed, (K, n, .) or (1, n, .)."""
        return x[None]

    def from_local(self, params: Any, mean: Array, scatter: Array) -> tuple[Array, Array]:
        """Means and scatters of components, from local coordinates to the data's."""
        return mean, scatter

    def to_local(self, params: Any, mean: Array, scatter: Array) -> tuple[Array, Array]:
        """The inverse of `from_local`."""
        return mean, scatter

    def log_density(self, params: Any, x: Array) -> Array:
        """log p(x|k), (n, K)."""
        eta = self.natural(params)
        linear = self.sufficient(x) @ eta.T
        return np.asarray(linear - self.log_normalizer(eta) + self.log_base(x)[:, None])
