"""Step sizes that decrease like a power, down to a minimum."""

from __future__ import annotations

import numpy as np

from mixfold.core.checks import check_above, check_least
from mixfold.core.rows import Array
from mixfold.core.value import value


@value
class Floored:
    """gamma_r = max(least, first * r^-(1/2 + alpha)).

    Examples
    --------
    >>> Floored(first=0.1, alpha=0.5, least=0.02)([1, 2, 10])
    array([0.1 , 0.05, 0.02])
    """

    first: float = 0.05
    alpha: float = 0.01
    least: float = 1e-4

    def __post_init__(self) -> None:
        check_above("first", self.first, 0.0, 1.0)
        check_least("alpha", self.alpha, 0.0)
        check_above("least", self.least, 0.0, self.first)

    def __call__(self, r: Array | list[float]) -> Array:
        """Step sizes of updates number r = 1, 2, ..."""
        falling = self.first * np.asarray(r, dtype=np.float64) ** -(0.5 + self.alpha)
        return np.asarray(np.maximum(falling, self.least))
