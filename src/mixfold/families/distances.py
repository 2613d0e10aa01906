"""Squared distances of rows from centres."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from mixfold.core.rows import Array

FEW_COLUMNS = 16  # for which direct sums are faster than products of matrices


def squared_distances(x: Array, centers: Array) -> Array:
    """Half the squared distances (n, c)."""
    if x.shape[1] <= FEW_COLUMNS:
        return np.asarray(0.5 * cdist(x, centers, "sqeuclidean"))
    squares = 0.5 * np.square(x).sum(axis=1)[:, None] + 0.5 * np.square(centers).sum(axis=1)
    return np.asarray(np.maximum(squares - x @ centers.T, 0.0))
