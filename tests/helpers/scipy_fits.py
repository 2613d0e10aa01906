"""Maximum-likelihood fits of scipy.stats that end at the maximum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import fmin


def to_rounding(loss: Callable[..., float], start: Any, args: Any, disp: int) -> np.ndarray:
    """The simplex of scipy's `fit`, ended by rounding: by default it ends after four digits."""
    found = start
    for _ in range(3):  # a simplex that is too small begins anew
        found = fmin(loss, found, args, xtol=1e-13, ftol=1e-13, maxfun=10_000, disp=disp)
    return np.asarray(found)
