"""Positive definite matrices, many at once: which are, and their determinants."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixfold.core.limits import SMALLEST
from mixfold.core.rows import Array

LEAST_PIVOT = 1e-12  # of a matrix with ones on its diagonal, that is not singular
LARGEST_ENTRY = 1e100  # of covariances and their inverses, whose quotients must be finite


def inverse(matrices: Array) -> Array:
    """Inverses of positive definite matrices (..., p, p), whose columns may differ in size."""
    roots = np.sqrt(np.diagonal(matrices, axis1=-2, axis2=-1))
    outer = roots[..., :, None] * roots[..., None, :]
    found = np.linalg.inv(matrices / outer) / outer
    return np.asarray(0.5 * (found + found.swapaxes(-1, -2)))


def is_positive_definite(matrices: Array) -> NDArray[np.bool_]:
    """Which of the symmetric matrices (n, p, p) are, by more than rounding, (n,)."""
    sizes, pivots = _pivots(matrices)
    return np.asarray(((sizes > SMALLEST) & (pivots > LEAST_PIVOT)).all(axis=1))


def log_determinants(matrices: Array) -> Array:
    """Of positive definite matrices (n, p, p); those of others are limited."""
    sizes, pivots = _pivots(matrices)
    return np.asarray((np.log(sizes) + np.log(np.maximum(pivots, LEAST_PIVOT))).sum(axis=1))


def _pivots(matrices: Array) -> tuple[Array, Array]:
    """Diagonals (n, p), at least 1e-100, and the pivots of the matrices scaled by them.

    Elimination does not stop at matrices that are not positive definite, but has finite pivots. The
    entries of others remain in [-1, 1], so that the limits do not change them.
    """
    matrices = matrices.clip(-LARGEST_ENTRY, LARGEST_ENTRY)
    sizes = np.maximum(np.diagonal(matrices, axis1=1, axis2=2), 1.0 / LARGEST_ENTRY)
    roots = np.sqrt(sizes)
    rest = (matrices / roots[:, :, None] / roots[:, None, :]).clip(-2.0, 2.0)
    pivots = np.empty_like(sizes)
    for j in range(sizes.shape[1]):
        pivots[:, j] = rest[:, 0, 0]
        column = rest[:, 1:, 0] / np.sqrt(np.maximum(pivots[:, j, None], LEAST_PIVOT))
        rest = (rest[:, 1:, 1:] - column[:, :, None] * column[:, None, :]).clip(-2.0, 2.0)
    return sizes, pivots
