"""Families of other rows that have the parameters of a given family."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mixfold.core.capabilities import UnconstrainedCoordinates, has_coordinates
from mixfold.core.data_limits import CanDegenerate, CanLackRows, LimitsFromData, limits_of
from mixfold.core.family import Family
from mixfold.core.rows import Array


class SameParams(Family):
    """Base of families whose parameters, with their coordinates and limits, are those of `like`."""

    @property
    @abstractmethod
    def like(self) -> Family:
        """The family whose parameters they are."""

    @abstractmethod
    def with_like(self, family: Family) -> Family:
        """This family with another one in its place."""

    @abstractmethod
    def rows_of_like(self, x: NDArray[np.floating]) -> NDArray[np.floating]:
        """Rows of that family, from those of this one."""

    @property
    def default_init(self) -> str:  # type: ignore[override]
        """The initializer of the other family."""
        return self.like.default_init

    @property
    def has_categories(self) -> bool:  # type: ignore[override]
        """Whether values are codes of categories."""
        return self.like.has_categories

    def at_column(self, column: int) -> Family:
        return self.like.at_column(column)

    def support_message_of(self, column: int) -> str:
        return self.like.support_message_of(column)

    def attributes(self, params: Any) -> dict[str, Array]:
        return self.like.attributes(params)

    def symmetric_kl(self, a: Any, b: Any) -> Array:
        return self.like.symmetric_kl(a, b)

    def sort_keys(self, params: Any) -> Array:
        return self.like.sort_keys(params)

    # capabilities

    @property
    def has_coordinates(self) -> bool:
        return has_coordinates(self.like)

    @property
    def _coordinates(self) -> UnconstrainedCoordinates:
        return cast(UnconstrainedCoordinates, self.like)

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
        if isinstance(self.like, CanDegenerate):
            return self.like.degenerate(params, weights)
        return np.zeros((len(weights), self.sort_keys(params).shape[1]), dtype=bool)

    def lacks_rows(self, params: Any, weights: Array, n: float) -> NDArray[np.bool_]:
        """Which components have too few rows."""
        if isinstance(self.like, CanLackRows):
            return self.like.lacks_rows(params, weights, n)
        return np.zeros(len(weights), dtype=bool)

    @property
    def takes_limits(self) -> bool:
        """Whether limits come from the data."""
        return limits_of(self.like) is not None

    @property
    def _limits(self) -> LimitsFromData:
        return cast(LimitsFromData, self.like)

    def with_limits(self, x: NDArray[np.floating]) -> Family:
        """Limits from rows."""
        return self.with_like(self._limits.with_limits(self.rows_of_like(x)))

    def with_limits_of(self, params: Any, weights: Array) -> Family:
        """Limits from parameters."""
        return self.with_like(self._limits.with_limits_of(params, weights))

    def without_limits(self) -> Family:
        """Without limits from data."""
        return self.with_like(self._limits.without_limits()) if self.takes_limits else self

    def common_limits(self, others: list[Any]) -> Family:
        """Limits that suit all data."""
        return self.with_like(self._limits.common_limits([other.like for other in others]))
