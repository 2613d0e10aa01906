"""The smallest variances of real columns, taken from the data where none are given."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import LARGEST_SQUARE, check_array
from mixfold.core.family import Family
from mixfold.core.rows import Array
from mixfold.core.value import replace
from mixfold.core.variance_floors import (
    SHARE,
    TOUCHING,
    column_limits,
    floors,
    lowest_variances,
)
from mixfold.families._centred_moments import MeansT

FLOORS, VARIANCES = "column_floors", "column_variances"


class VarianceLimits(Family[MeansT]):
    """Limits of variances: a fraction of a column's, and what the data's resolution allows."""

    floor: float | None
    reg_covar: float
    cap: float | None
    column_floors: Array | None
    column_variances: Array | None

    @property
    def floor_share(self) -> float:
        """The fraction of a column's variance below which no component's falls.

        It is zero where limits come from the data: these are fractions of robust variances, which
        a few far rows do not change.
        """
        if self.floor is not None:
            return self.floor
        return SHARE if self.column_floors is None else 0.0

    def lowest_variances(self, d: int) -> Array:
        """The lower bound of variances, whatever the fraction, (d,)."""
        return lowest_variances(self.column_floors, d)

    def floors(self, total: Array, centre: Array) -> Array:
        """The smallest variance of every column, of rows with these variances and means."""
        return floors(self.floor_share, total, centre, self.lowest_variances(len(centre)))

    @property
    def takes_limits(self) -> bool:
        """Whether the smallest variances come from the data."""
        return self.floor is None and self.reg_covar == 0.0 and self.cap is None

    def with_limits(self, x: NDArray[np.floating]) -> Self:
        return self._with_limits(*column_limits(x))

    def with_limits_of(self, params: MeansT, weights: Array) -> Self:
        return self._with_limits(self._floors_of(params, weights), None)

    def without_limits(self) -> Self:
        return self._with_limits(None, None) if self.takes_limits else self

    def common_limits(self, others: list[Self]) -> Self:
        known = [one for one in (self, *others) if one.column_floors is not None]
        if not (self.takes_limits and known):
            return self
        least, robust = ([getattr(one, f) for one in known] for f in (FLOORS, VARIANCES))
        variances = None if any(one is None for one in robust) else np.min(robust, axis=0)
        return self._with_limits(np.min(least, axis=0), variances)

    def _with_limits(self, floors: Array | None, variances: Array | None) -> Self:
        return replace(self, **{FLOORS: floors, VARIANCES: variances})

    def of_columns(self, chosen: Sequence[int]) -> Self:
        """The family of some of the columns, with their limits."""
        limits = (self.column_floors, self.column_variances)
        return self._with_limits(*(None if a is None else a[chosen] for a in limits))

    def degenerate(self, params: MeansT, weights: Array) -> NDArray[np.bool_]:
        """Where a column's variance, given the columns before it, is on its floor."""
        if self.cap is not None:
            return np.zeros(params.means.shape, dtype=bool)
        floor, found = self._floors_of(params, weights), np.empty(params.means.shape, dtype=bool)
        # one at a time, since there may be tens of thousands of columns
        for k in range(len(found)):
            found[k] = self._column_variances(params, k)[1] <= TOUCHING * floor
        return found

    def _floors_of(self, params: MeansT, weights: Array) -> Array:
        """The smallest variance of every column, of rows from these components, (d,)."""
        centre = weights @ params.means
        total = np.zeros_like(centre)
        for k, (weight, mean) in enumerate(zip(weights, params.means, strict=True)):
            total += weight * (self._column_variances(params, k)[0] + np.square(mean - centre))
        return self.floors(total, centre)

    @abstractmethod
    def _column_variances(self, params: MeansT, k: int) -> tuple[Array, Array]:
        """Variances of columns in component k, and those that have floors, (d,) each."""

    def check_columns(self, d: int) -> None:
        for name in (FLOORS, VARIANCES):
            if getattr(self, name) is not None:
                check_array(name, getattr(self, name), (d,), 0.0, LARGEST_SQUARE)
