"""Protocols of families whose parameters have limits that depend on the data."""

from __future__ import annotations

from typing import Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mixfold.core.capability import Capability
from mixfold.core.family import Family
from mixfold.core.params import ParamsT_contra


@runtime_checkable
class LimitsFromData(Capability, Protocol[ParamsT_contra]):
    """A family that can take limits, such as the smallest variances, from a sample of the data.

    `takes_limits` is true if the user has not set any.
    """

    @property
    def takes_limits(self) -> bool:
        """Whether limits come from the data."""

    def with_limits(self, x: NDArray[np.floating]) -> Family:
        """The family with limits computed from rows `x`."""

    def with_limits_of(self, params: ParamsT_contra, weights: NDArray[np.float64]) -> Family:
        """The family with limits computed from parameters instead of rows."""

    def without_limits(self) -> Family:
        """The family without limits from data."""

    def common_limits(self, others: list[Self]) -> Family:
        """The family with limits that suit its own data and those of other instances."""


@runtime_checkable
class CanDegenerate(Capability, Protocol[ParamsT_contra]):
    """A family that can report in which columns components are at their limits."""

    def degenerate(self, params: ParamsT_contra, weights: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether component k is at a limit in each column, (K, d)."""


@runtime_checkable
class CanLackRows(Capability, Protocol[ParamsT_contra]):
    """A family whose components may have too few rows without being at their limits."""

    def lacks_rows(
        self, params: ParamsT_contra, weights: NDArray[np.float64], n: float
    ) -> NDArray[np.bool_]:
        """Which components have too few of n rows, and are near a limit for that, (K,)."""


def limits_of(family: Family) -> LimitsFromData | None:
    """The family, if it takes limits from the data."""
    return family if isinstance(family, LimitsFromData) and family.takes_limits else None


def without_limits(family: Family) -> Family:
    """The family without limits from data, as the user gave it."""
    return family.without_limits() if isinstance(family, LimitsFromData) else family
