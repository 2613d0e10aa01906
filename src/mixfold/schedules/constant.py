"""Constant step sizes: exponential forgetting."""

from __future__ import annotations

import numpy as np

from mixfold.core.checks import check_above
from mixfold.core.rows import Array
from mixfold.core.value import value


@value
class Constant:
    """gamma_r = step: about the last 1/step updates have an influence.

    Examples
    --------
    >>> Constant(0.1)([1, 2])
    array([0.1, 0.1])
    """

    step: float = 0.01

    def __post_init__(self) -> None:
        check_above("step", self.step, 0.0, 1.0)

    def __call__(self, r: Array | list[float]) -> Array:
        """Step sizes of updates number r = 1, 2, ..."""
        return np.full(np.shape(r), self.step)
