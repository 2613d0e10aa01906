"""What learners that begin without a look at the data say of rows that do not suit them."""

from __future__ import annotations

from math import sqrt

import numpy as np

from mixfold.core.rows import Rows
from mixfold.core.source import block_length

DULL, FAR = 0.25, 3.0  # of what a cap and a step can express: beyond, there is a warning


def out_of_scale(rows: Rows, step: float, cap: float, remedy: str = "") -> list[str]:
    """Of rows that throw steps about, or that no component with capped precisions can resolve."""
    said, within = [], FAR / sqrt(step)
    x = rows.cut(0, block_length(rows.x.shape[1])).x.astype(np.float64, copy=False)
    far = float(np.quantile(np.abs(x), 0.99))
    if far > within:
        said.append(
            f"rows have values of {far:.3g}, where steps overshoot or components stay behind: they "
            f"should lie within {within:.3g} of zero; shift and divide the columns{remedy}"
        )
    widest, finest = float(x.std(axis=0).max()), 1.0 / sqrt(cap)
    if 0.0 < widest < DULL * finest:
        said.append(
            f"columns have deviations of {widest:.3g} at most, and cap={cap:g} keeps those of "
            f"components above {finest:.3g}, so that no two can be told apart; multiply the "
            f"columns, raise cap{remedy}"
        )
    return said
