"""Rows that are not far from all others, for initial parameters of mixtures with noise.

Reference: Byers and Raftery (1998), Nearest-neighbor clutter removal for estimating features in
spatial point processes, Journal of the American Statistical Association 93, 577-584.
"""

from __future__ import annotations

import numpy as np

from mixfold.core.missing_cells import filled, has_missing
from mixfold.core.rows import Array, Rows
from mixfold.families.distances import squared_distances
from mixfold.models.clustering import some_of

NEIGHBOURS, COMPARED = 10, 1000  # the neighbour whose distance counts, among so many rows
KEPT = 0.85  # the part of the rows, those with the nearest neighbours


def dense_rows(rows: Rows, seed: list[int]) -> Rows:
    """The rows whose tenth nearest neighbour among some of them is nearest; those with a weight.

    Columns are divided by the distance between their quartiles, which few far rows do not change.
    """
    rng = np.random.default_rng(seed)
    rows = rows.where(rows.weights() > 0.0)
    x = filled(rows.x, rng) if has_missing(rows.x) else rows.x.astype(np.float64)
    if len(x) <= NEIGHBOURS:
        return rows
    x = x / _spread(x)
    others = x[some_of(rows, COMPARED, rng)]
    nearest = np.partition(squared_distances(x, others), NEIGHBOURS, axis=1)[:, NEIGHBOURS]
    return rows.where(nearest <= np.quantile(nearest, KEPT))


def _spread(x: Array) -> Array:
    """The distance between the quartiles of each column; the deviation where that is zero."""
    low, high = np.quantile(x, [0.25, 0.75], axis=0)
    spread = np.where(high > low, high - low, x.std(axis=0))
    return np.asarray(np.where(spread > 0.0, spread, 1.0))
