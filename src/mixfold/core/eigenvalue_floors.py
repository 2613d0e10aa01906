"""Symmetric matrices whose eigenvalues are kept off zero, so that they have a Cholesky factor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixfold.core.rows import Array


def raise_eigenvalues(
    matrices: Array, least: float, share: float = 0.0, tolerance: float = 0.0
) -> tuple[Array, NDArray[np.intp]]:
    """Matrices (..., d, d) with no eigenvalue below a floor, and how many were below it, (...).

    The floor is `least`, or `share` times the largest eigenvalue of a matrix if that is more. A
    matrix whose eigenvalues are all above `(1 - tolerance) * floor` is kept to the bit.
    """
    values, vectors = np.linalg.eigh(matrices)
    floor = np.maximum(least, share * values[..., -1:])
    low = np.count_nonzero(values < floor * (1.0 - tolerance), axis=-1, keepdims=True)
    raised = (vectors * np.maximum(values, floor)[..., None, :]) @ vectors.swapaxes(-1, -2)
    symmetric = 0.5 * (raised + raised.swapaxes(-1, -2))
    return np.where(low[..., None] > 0, symmetric, matrices), low[..., 0]
