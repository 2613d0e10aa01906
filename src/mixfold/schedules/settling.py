"""Step size 1 at first, then decreasing step sizes."""

from __future__ import annotations

import numpy as np

from mixfold.core.checks import check_above, check_whole
from mixfold.core.rows import Array
from mixfold.core.value import value


@value
class Settling:
    """gamma_r = 1 for the first `full` updates, then (r - full)^-exponent.

    Examples
    --------
    >>> Settling(full=2, exponent=1.0)([1, 2, 3, 4, 5])
    array([1.        , 1.        , 1.        , 0.5       , 0.33333333])
    """

    full: int = 30
    exponent: float = 1.0

    def __post_init__(self) -> None:
        check_whole("full", self.full, 0)
        check_above("exponent", self.exponent, 0.0)

    def __call__(self, r: Array | list[float]) -> Array:
        """Step sizes of updates number r = 1, 2, ..."""
        settled = np.maximum(np.asarray(r, dtype=np.float64) - self.full, 1.0)
        return np.asarray(settled**-self.exponent)
