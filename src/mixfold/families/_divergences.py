"""Divergences of rows from centres, for initializers."""

from __future__ import annotations

import numpy as np

from mixfold.core.limits import SMALLEST
from mixfold.core.rows import Array


def typical_size(x: Array, weight: Array) -> Array:
    """The mean of each column, (d,), by which divergences are scaled."""
    return np.asarray(np.maximum((weight / weight.sum()) @ x, SMALLEST))


def itakura_saito(x: Array, centers: Array, weight: Array) -> Array:
    """x/c - log(x/c) - 1, summed over columns, (n, c); zeros are moved off zero."""
    tiny = np.maximum(1e-3 * typical_size(x, weight), SMALLEST)
    x, c = np.maximum(x, tiny), np.maximum(centers, tiny)
    ratios = (x / one for one in c)
    return np.stack([(q - np.log(q) - 1.0).sum(axis=1) for q in ratios], axis=1)
