"""Ranking of numbers that rounding may have changed."""

from __future__ import annotations

import numpy as np

from mixfold.core.rows import Array

SCORE_TOLERANCE = 1e-10


def levels(values: Array, tolerance: float) -> np.ndarray:
    """0 for the smallest value, and one more at each gap that is wider than the tolerance."""
    order = np.argsort(values, kind="stable")
    found = np.zeros(len(values), dtype=np.intp)
    with np.errstate(invalid="ignore"):
        found[order[1:]] = np.cumsum(np.diff(values[order]) > tolerance)
    return found


def ranked(scores: list[float]) -> list[int]:
    """Indices of scores, best first; ties keep their order."""
    falling = -np.nan_to_num(np.array(scores), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    finite = np.abs(falling[np.isfinite(falling)])
    level = levels(falling, SCORE_TOLERANCE * (1.0 + finite.max(initial=0.0)))
    return np.lexsort([np.arange(len(scores)), level]).tolist()  # type: ignore[no-any-return]
