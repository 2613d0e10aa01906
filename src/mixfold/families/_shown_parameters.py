"""The parameters that users see, as functions of the coordinates of scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeGuard

import numpy as np
from numpy.typing import NDArray

from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks

Scale = Literal["identity", "log", "logit"]


@dataclass(frozen=True)
class ShownParameter:
    """The m entries of a fitted attribute of one family, and their derivatives.

    Attributes
    ----------
    name : str
        The name of the attribute, such as "means".
    values : array (m,)
        Of a symmetric matrix, the entries on and below the diagonal.
    components : array (m,)
        The component of each entry; -1 if all share it.
    columns : array (m, c)
        The columns of each entry: none, one, or two for a covariance.
    levels : array (m,)
        The level of each entry; -1 if there are none.
    scale : {"identity", "log", "logit"}
        On which scale the distribution of the estimates is closest to a normal one.
    jacobian : function without arguments
        Derivatives (m, q) in the local coordinates, of which the first is number `first`, of the
        component, or of component 0 if all share the entry.
    limited : array (m,)
        Which entries are at a limit, where they have no standard error.
    factor : tuple of int, optional
        The columns of the factor of a product that the parameter belongs to.
    """

    name: str
    values: Array
    components: NDArray[np.intp]
    columns: NDArray[np.intp]
    levels: NDArray[np.intp]
    scale: Scale
    jacobian: Callable[[], Array]
    limited: NDArray[np.bool_]
    first: int = 0
    factor: tuple[int, ...] | None = None

    def moved(self, first: int, places: Sequence[int]) -> ShownParameter:
        """The parameter of a factor, whose local coordinates begin at `first`, in a product."""
        columns = np.asarray(places, dtype=np.intp)[self.columns]
        return replace(
            self, first=self.first + first, columns=columns, factor=tuple(map(int, places))
        )


class LocalScores(ABC):
    """Derivatives of log p(x | k) in q coordinates of each component.

    `index` (K, q) are the numbers of the free coordinates, from 0 to n_free - 1; -1 is fixed.
    """

    def __init__(self, index: NDArray[np.intp], n_free: int) -> None:
        self.index = index
        self.n_free = n_free

    @abstractmethod
    def scores(self, x: Array) -> Array:
        """The derivatives for rows (n, d), (K, n, q)."""

    @abstractmethod
    def curvature(self, x: Array, weight: Array) -> Array:
        """Minus the second derivatives of log p(x | k), summed with weights (n, K); (K, q, q).

        Terms that are zero at the maximum may be left out.
        """

    @abstractmethod
    def shown(self) -> list[ShownParameter]:
        """The parameters that users see."""


class StatisticScores(LocalScores):
    """Scores of which the sums over rows follow from statistics, also at parameters nearby."""

    family: Any
    params: Any

    @property
    def columns(self) -> NDArray[np.intp] | None:
        """The column of each local coordinate, if columns are independent."""
        return None

    @abstractmethod
    def information(self) -> Array:
        """The Fisher information of a row that belongs to the component, (K, q, q)."""

    @cached_property
    def _information(self) -> Array:
        return self.information()

    def curvature(self, x: Array, weight: Array) -> Array:
        return np.asarray(weight.sum(axis=0)[:, None, None] * self._information)

    @property
    def has_information(self) -> bool:
        """Whether the Fisher information has a formula."""
        return True

    @property
    def has_steps(self) -> bool:
        """Whether the maximum of the likelihood is where these sums are zero."""
        return True

    @abstractmethod
    def totals(self, params: Any, blocks: Blocks) -> Array:
        """Sums (K, q) of the scores at `params` of rows with these blocks."""

    @abstractmethod
    def moved(self, params: Any, change: Array) -> Any:
        """Parameters whose local coordinates are those of `params` and the change (K, q)."""


def has_steps(scores: LocalScores) -> TypeGuard[StatisticScores]:
    """Whether parameters can be moved by what statistics say about scores."""
    return isinstance(scores, StatisticScores) and scores.has_steps


def has_information(scores: LocalScores) -> TypeGuard[StatisticScores]:
    """Whether the Fisher information of a row has a formula."""
    return isinstance(scores, StatisticScores) and scores.has_information


def wide(weight: Array) -> Array:
    """The weights of a block in the shape that multiplies sums, (K, 1) or (K, m)."""
    return weight if weight.ndim == 2 else weight[:, None]


def grid(*lengths: int) -> NDArray[np.intp]:
    """The indices of all entries of an array of this shape, (m, number of axes)."""
    return np.indices(lengths).reshape(len(lengths), -1).T


def numbered(free: NDArray[np.bool_]) -> tuple[NDArray[np.intp], int]:
    """Numbers of the free coordinates, -1 for the others, and how many there are."""
    index = np.where(free, np.cumsum(free.ravel()).reshape(free.shape) - 1, -1)
    return index, int(free.sum())
