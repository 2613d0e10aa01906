"""Warnings of learners whose initial parameters do not depend on the scale of the data."""

from __future__ import annotations

from math import sqrt

import numpy as np

from mixfold.core.rows import Rows
from mixfold.core.source import block_length

# multiples of the range that suits a cap and a step size, beyond which there is a warning
DULL, FAR = 0.25, 3.0


def out_of_scale(rows: Rows, step: float, cap: float, remedy: str = "") -> list[str]:
    """Warnings about rows too large for the step size, or too close together for the cap."""
    found, within = [], FAR / sqrt(step)
    x = rows.cut(0, block_length(rows.x.shape[1])).x.astype(np.float64, copy=False)
    far = float(np.quantile(np.abs(x), 0.99))
    if far > within:
        found.append(
            f"rows have values of {far:.3g}, for which steps are too long or too short: they "
            f"should lie within {within:.3g} of zero; shift and divide the columns{remedy}"
        )
    widest, finest = float(x.std(axis=0).max()), 1.0 / sqrt(cap)
    if 0.0 < widest < DULL * finest:
        found.append(
            f"columns have deviations of {widest:.3g} at most, and cap={cap:g} keeps those of "
            f"components above {finest:.3g}, so that components cannot separate; multiply the "
            f"columns, raise cap{remedy}"
        )
    return found
