"""k-means in any coordinates of rows, for initializers and for moves of components."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from mixfold.core.rows import Array, Rows
from mixfold.families.distances import FEW_COLUMNS, squared_distances
from mixfold.models.assignment import spread_centers, weights_of
from mixfold.models.near_centers import (
    MANY_CENTERS,
    Cells,
    NearCenters,
)

ENOUGH_ROWS, ROWS_PER_CENTER = 2000, 25
ITERATIONS = 8  # Lloyd's, which learning continues
MOST_MOVES = 16
ROWS_PER_CELL = 50  # on which cells are found
MOST_DIRECTIONS = 50
SMALLEST_EIGENVALUE = 1e-8  # of standardised rows; below it they have no spread in the direction


def _distances(x: Array, centers: Array, weight: Array) -> Array:
    return squared_distances(x, centers)


def some_of(rows: Rows, n: int, rng: np.random.Generator) -> np.ndarray:
    """The numbers of at most n rows, drawn without replacement, in order."""
    if len(rows) <= n:
        return np.arange(len(rows))
    return np.sort(rng.choice(len(rows), n, replace=False))


def centred_rows(rows: Rows) -> tuple[Array, Array]:
    """Rows about their weighted mean, and their weights with a sum of one."""
    weight = weights_of(rows)
    weight = weight / weight.sum()
    x = rows.x.astype(np.float64, copy=False)
    x = x - x[0]  # so that rows far from zero lose no digits
    return x - weight @ x, weight


def standardized(rows: Rows) -> Array:
    """Columns of mean 0 and variance 1; constant columns are zero."""
    x, weight = centred_rows(rows)
    deviations = np.sqrt(weight @ np.square(x))
    return np.asarray(x / np.where(deviations > 0.0, deviations, 1.0))


def sphered(rows: Rows, most: int = MOST_DIRECTIONS) -> Array:
    """Uncorrelated coordinates of mean 0 and variance 1, in at most so many directions.

    They are the principal components of the standardised columns, each divided by its deviation.
    """
    x, (_, weight) = standardized(rows), centred_rows(rows)
    values, vectors = np.linalg.eigh((weight[:, None] * x).T @ x)
    kept = np.flatnonzero(values > SMALLEST_EIGENVALUE * max(values[-1], 1.0))[::-1][:most]
    if not len(kept):
        return np.zeros((len(x), 1))
    return np.asarray(x @ (vectors[:, kept] / np.sqrt(values[kept])))


def k_means(x: Array, weight: Array, k: int, rng: np.random.Generator) -> np.ndarray:
    """Labels of all rows after k-means++, Lloyd's iterations and moves of centres on some rows."""
    rows, mass, centers = _seeded(x, weight, k, max(ENOUGH_ROWS, ROWS_PER_CENTER * k), rng)
    centers = _with_moves(rows, mass, lloyd(rows, mass, centers, ITERATIONS)[0])
    return rows.others(x).nearest(centers)[1][:, 0]


def small_groups(x: Array, weight: Array, k: int, rng: np.random.Generator) -> np.ndarray:
    """Labels of all rows after k-means++ and few of Lloyd's iterations."""
    rows, mass, centers = _seeded(x, weight, k, ROWS_PER_CENTER * k, rng)
    return rows.others(x).nearest(lloyd(rows, mass, centers, 3)[0])[1][:, 0]


def _seeded(
    x: Array, weight: Array, k: int, most: int, rng: np.random.Generator
) -> tuple[NearCenters, Array, Array]:
    """At most so many rows with their weights, and centres drawn from them by k-means++."""
    some = some_of(Rows(x), most, rng)
    points, mass = x[some], weight[some]
    if k < MANY_CENTERS:
        return NearCenters(points), mass, spread_centers(_distances, k, Rows(points, mass), rng)
    cells = cells_of(points, mass, k, rng)
    return cells, mass, cells.draw(mass, k, rng)


def cells_of(x: Array, weight: Array, k: int, rng: np.random.Generator) -> Cells:
    """Rows divided into about sqrt(K) cells by k-means on some of them."""
    number = int(np.sqrt(k))
    some = some_of(Rows(x), ROWS_PER_CELL * number, rng)
    rows, mass = NearCenters(x[some]), weight[some]
    coarse = spread_centers(_distances, number, Rows(rows.x, mass), rng)
    return Cells(x, lloyd(rows, mass, coarse, 3)[0])


def lloyd(rows: NearCenters, weight: Array, centers: Array, most: int) -> tuple[Array, float]:
    """Centres after Lloyd's iterations, and the weighted sum of squared distances before them.

    A group without any weight keeps its centre.
    """
    error = np.inf
    for _ in range(most):
        distances, labels = (part[:, 0] for part in rows.nearest(centers))
        now = float(weight @ distances)
        total = np.bincount(labels, weight, len(centers))
        sums = _sums(rows.x, weight, labels, len(centers))
        centers = np.where(total[:, None] > 0.0, sums / np.maximum(total, 1e-300)[:, None], centers)
        if not now < error * (1.0 - 1e-4):
            break
        error = now
    return centers, error


def _sums(x: Array, weight: Array, labels: np.ndarray, k: int) -> Array:
    """The weighted sums of the rows of each group (k, d)."""
    if x.shape[1] <= FEW_COLUMNS:
        return np.stack([np.bincount(labels, weight * column, k) for column in x.T], axis=1)
    members = csr_matrix((weight, labels, np.arange(len(x) + 1)), (len(x), k))
    return np.asarray(members.T @ x)


def _with_moves(rows: NearCenters, weight: Array, centers: Array) -> Array:
    """Move the centres that are needed least to the groups with the largest error, while it helps.

    Half as many are moved after a move that did not help. Reference: Fritzke (2021), The
    breathing k-means algorithm; Fränti (2018), Efficiency of random swap clustering.
    """
    centers, error = lloyd(rows, weight, centers, 2)
    number = len(centers) // 3
    for _ in range(MOST_MOVES):
        if not number:
            break
        tried, now = lloyd(rows, weight, _moved(rows, weight, centers, number), ITERATIONS // 2)
        if now < error * (1.0 - 1e-3):
            centers, error = tried, now
        else:
            number //= 2
    return centers


def _moved(rows: NearCenters, weight: Array, centers: Array, number: int) -> Array:
    """Centres of which so many are placed at rows of other groups, half a deviation away."""
    (least, second), (own, _) = (part.T for part in rows.nearest(centers, 2))
    k = len(centers)
    error = np.bincount(own, weight * least, k)
    needed = np.bincount(own, weight * (second - least), k)
    largest = np.argsort(-error, kind="stable")[:number]
    needed[largest] = np.inf
    total = np.maximum(np.bincount(own, weight, k), 1e-300)
    farthest = _farthest(least, own, k)
    after = centers.copy()
    for source, target in zip(np.argsort(needed, kind="stable"), largest, strict=False):
        if farthest[target] >= 0 and np.isfinite(needed[source]):
            axis = rows.x[farthest[target]] - centers[target]
            length = np.sqrt(2.0 * error[target] / total[target])
            size = np.sqrt(axis @ axis)
            after[source] = centers[target] + 0.5 * length * axis / (size if size > 0.0 else 1.0)
    return after


def _farthest(distances: Array, labels: np.ndarray, k: int) -> np.ndarray:
    """The first row of every group that is farthest from its centre, -1 for empty groups."""
    order = np.lexsort((-distances, labels))
    groups, first = np.unique(labels[order], return_index=True)
    found = np.full(k, -1)
    found[groups] = order[first]
    return found
