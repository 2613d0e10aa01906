"""Squared distances of rows from centres."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from mixfold.core.rows import Array

FEW_COLUMNS = 16  # for which direct sums are faster than products of matrices


def half_squares(x: Array) -> Array | None:
    """Half the squared lengths of rows (n,), which `squared_distances` needs for many columns."""
    if x.shape[1] <= FEW_COLUMNS:
        return None
    return np.asarray(0.5 * np.square(x).sum(axis=1))


def squared_distances(x: Array, centers: Array, of_rows: Array | None = None) -> Array:
    """Half the squared distances (n, c); `of_rows` are the `half_squares` of x, if known."""
    of_centers = half_squares(centers)
    if of_centers is None:
        return np.asarray(0.5 * cdist(x, centers, "sqeuclidean"))
    of_rows = half_squares(x) if of_rows is None else of_rows
    assert of_rows is not None
    found = of_rows[:, None] + of_centers
    found -= x @ centers.T
    return np.asarray(np.maximum(found, 0.0, out=found))
