"""Scaling of columns while learning."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import LARGEST_SUM, check_array
from mixfold.core.rows import Array, Rows
from mixfold.core.value import value
from mixfold.models.mixture_model import MixtureParams

REACH = 5.0
# values are clipped to this while learning, so that float32 holds products of squares
FARTHEST = 1e12


@value
class ColumnScaling:
    """z = (x - offset) / scale, column by column."""

    offset: Array
    scale: Array

    def check(self, d: int) -> None:
        """Refuse offsets that are not finite, and scales that are not above zero."""
        check_array("offset", self.offset, (d,))
        check_array("scale", self.scale, (d,), 1.0 / LARGEST_SUM)

    def apply(self, x: NDArray[np.floating], dtype: np.dtype[np.floating]) -> NDArray[np.floating]:
        """Rows or means in the units of learning."""
        z: Array = np.subtract(x, self.offset, dtype=np.float64)
        z /= self.scale
        return z.clip(-FARTHEST, FARTHEST).astype(dtype, copy=False)

    def undo(self, params: MixtureParams) -> MixtureParams:
        """Convert a mixture of z to a mixture of x."""
        components = params.components.rescaled(self.offset, self.scale)
        return MixtureParams(params.weights, components)

    @property
    def log_volume(self) -> float:
        """log p(z) - log p(x)."""
        return float(np.log(self.scale).sum())


def scaling_of(rows: Rows) -> ColumnScaling:
    """Means and deviations of columns.

    Scales are increased until no row is more than `REACH` scales from the mean, so that nearly
    constant columns have no extreme values. Constant columns get the largest scale of the others.
    """
    there = rows if rows.weight is None else rows.where(rows.weight > 0.0)
    x = there.x.astype(np.float64, order="C")
    share = (there.weights() / there.total_weight())[:, None]
    # not a matrix product, whose rounding depends on memory alignment
    offset = (share * x).sum(axis=0)
    x -= offset
    deviation = np.sqrt((share * np.square(x)).sum(axis=0))
    scale = np.maximum(deviation, np.abs(x).max(axis=0) / REACH)
    varies = scale > np.finfo(np.float64).eps * np.abs(offset)
    return ColumnScaling(offset, np.where(varies, scale, scale[varies].max(initial=0.0) or 1.0))
