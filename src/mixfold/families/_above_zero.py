"""Families of values above zero."""

from __future__ import annotations

import numpy as np

from mixfold.core.column_means import MeansAreAttributes
from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.independent_columns import IndependentColumns
from mixfold.core.limits import SMALLEST
from mixfold.core.params import ParamsT
from mixfold.core.rows import Array
from mixfold.core.support import Support

LEAST_VARIATION = 1e-8  # smallest squared ratio of a component's standard deviation and mean


def kept_above_zero(x: Array) -> Array:
    """Values below 1e-60 count as 1e-60, so that logarithms and reciprocals are finite."""
    return np.maximum(x, SMALLEST)


class AboveZeroSupport:
    """The support of densities on the open half-line; a zero is refused."""

    support = Support(low=0.0)
    support_message = "values must be above 0"

    def out_of_support(self, x: Array) -> np.ndarray | None:
        outside: np.ndarray = x <= 0.0
        return outside


class AboveZero(
    AboveZeroSupport, MeansAreAttributes, IndependentColumns, ExponentialFamily[ParamsT]
):
    """Base of exponential families of values above zero."""
