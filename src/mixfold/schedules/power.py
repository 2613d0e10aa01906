"""Step sizes that decrease like a power."""

from __future__ import annotations

import numpy as np

from mixfold.core.checks import check_above, check_least
from mixfold.core.rows import Array
from mixfold.core.value import value


@value
class Power:
    """gamma_r = scale * (r + delay)^-exponent; 1/2 < exponent <= 1 gives convergence.

    Examples
    --------
    >>> Power(exponent=1.0, scale=1.0)([1, 2, 4])
    array([1.  , 0.5 , 0.25])
    """

    exponent: float = 0.6
    scale: float = 1.0 - 1e-10
    delay: float = 0.0

    def __post_init__(self) -> None:
        check_above("exponent", self.exponent, 0.0)
        check_above("scale", self.scale, 0.0, 1.0)
        check_least("delay", self.delay, 0.0)

    def __call__(self, r: Array | list[float]) -> Array:
        """Step sizes of updates number r = 1, 2, ..."""
        r = np.asarray(r, dtype=np.float64) + self.delay
        return np.asarray(self.scale * r**-self.exponent)
