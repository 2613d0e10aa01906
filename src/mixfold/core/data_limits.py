"""Families whose parameters have limits that depend on the data."""

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

    It `takes_limits` where the user has not set any.
    """

    @property
    def takes_limits(self) -> bool:
        """Whether limits come from the data."""

    def with_limits(self, x: NDArray[np.floating]) -> Family:
        """The family with the limits that rows `x` suggest."""

    def with_limits_of(self, params: ParamsT_contra, weights: NDArray[np.float64]) -> Family:
        """The family with the limits that parameters suggest, in place of rows."""

    def without_limits(self) -> Family:
        """The family as it was before it took limits from data."""

    def common_limits(self, others: list[Self]) -> Family:
        """The family with limits that serve its data and those of others of its kind."""


@runtime_checkable
class CanDegenerate(Capability, Protocol[ParamsT_contra]):
    """A family that can tell in which columns components are as narrow as they may be."""

    def degenerate(self, params: ParamsT_contra, weights: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which components are on a limit, by columns, (K, d)."""


def without_limits(family: Family) -> Family:
    """The family as the user gave it."""
    return family.without_limits() if isinstance(family, LimitsFromData) else family
