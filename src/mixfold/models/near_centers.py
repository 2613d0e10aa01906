"""Centres for groups of rows, and the nearest of them, in less time than all distances take."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from mixfold.core.rows import Array
from mixfold.families.distances import squared_distances

# from how many centres and up to how many columns a tree finds the nearest faster
TREES = ((64, 4), (2000, 8))
NUMBERS_TOGETHER = 2**20  # distances in memory at a time
MANY_CENTERS = 256  # from which rows are divided into cells to draw centres
MANY_TO_COMPARE = 2000  # centres, from which each row is compared with those near its cell alone
NEAR_CELLS = 6  # as many centres are near a cell as so many cells have
CANDIDATES = 3  # rows that are drawn for a centre, of which the best is taken


def has_tree(centers: Array) -> bool:
    """Whether a tree finds the nearest of so many centres faster."""
    return any(len(centers) >= many and centers.shape[1] <= most for many, most in TREES)


def nearest(x: Array, centers: Array, number: int = 1) -> tuple[Array, np.ndarray]:
    """Half the squared distances to the one or two nearest centres (n, number), and which."""
    if has_tree(centers):
        found, labels = cKDTree(centers).query(x, np.arange(1, number + 1))
        return 0.5 * np.square(found), labels
    found, labels = np.empty((len(x), number)), np.empty((len(x), number), np.intp)
    for part in _blocks(slice(0, len(x)), len(centers)):
        found[part], labels[part] = _smallest(squared_distances(x[part], centers), number)
    return found, labels


def _smallest(distances: Array, number: int) -> tuple[Array, np.ndarray]:
    """The one or two smallest numbers of every row, and their places; they are overwritten."""
    row = np.arange(len(distances))
    found, places = np.empty((len(row), number)), np.empty((len(row), number), np.intp)
    for i in range(number):
        places[:, i] = distances.argmin(axis=1)
        found[:, i] = distances[row, places[:, i]]
        if i + 1 < number:
            distances[row, places[:, i]] = np.inf
    return found, places


def _nearest_places(
    x: NDArray[np.float32], centers: NDArray[np.float32], number: int
) -> np.ndarray:
    """Places of the one or two centres that are nearest to each row, in single precision."""
    away = x @ centers.T
    np.subtract(0.5 * np.square(centers).sum(axis=1), away, out=away)
    first = away.argmin(axis=1)
    if number == 1:
        return np.asarray(first[:, None])
    away[np.arange(len(x)), first] = np.inf
    return np.stack([first, away.argmin(axis=1)], axis=1)


def _paired(x: Array, centers: Array) -> Array:
    """Half the squared distance of every row from the centre of the same number."""
    away = x - centers
    return np.asarray(0.5 * np.einsum("ij,ij->i", away, away))


def _blocks(part: slice, columns: int) -> Iterator[slice]:
    """Parts of a slice, so that distances to so many centres are few numbers at a time."""
    step = max(1, NUMBERS_TOGETHER // columns)
    for first in range(part.start, part.stop, step):
        yield slice(first, min(first + step, part.stop))


class NearCenters:
    """Finds the centres that are nearest to each of some rows."""

    def __init__(self, x: Array) -> None:
        self.x = x

    def nearest(self, centers: Array, number: int = 1) -> tuple[Array, np.ndarray]:
        """Half the squared distances to the one or two nearest centres (n, number), and which."""
        return nearest(self.x, centers, number)

    def others(self, x: Array) -> NearCenters:
        """The same for other rows."""
        return NearCenters(x)


class Cells(NearCenters):
    """Rows divided into cells of rows that are near each other, about sqrt(K) of them.

    A cell has the rows that are nearest to one of some coarse centres. Centres are drawn, and
    nearest ones are found, cell by cell: for each row it takes sqrt(K) distances in place of K.
    """

    def __init__(self, x: Array, coarse: Array) -> None:
        super().__init__(x)
        self.coarse = coarse
        label = nearest(x, coarse)[1][:, 0]
        self.order = np.argsort(label, kind="stable")
        self.ends = np.cumsum(np.bincount(label, minlength=len(coarse)))
        # about their coarse centres, which few digits are enough for
        self.about = (x - coarse[label])[self.order].astype(np.float32)

    def others(self, x: Array) -> Cells:
        return self if len(x) == len(self.x) else Cells(x, self.coarse)

    def cells(self) -> list[tuple[int, slice]]:
        """The numbers of cells that have rows, and the places of these among the sorted rows."""
        begins = np.append(0, self.ends[:-1])
        both = zip(begins.tolist(), self.ends.tolist(), strict=True)
        return [(i, slice(a, b)) for i, (a, b) in enumerate(both) if b > a]

    def nearest(self, centers: Array, number: int = 1) -> tuple[Array, np.ndarray]:
        """The same among the centres near the cell of a row, if there are very many.

        They are those in the cell, and others that are close to its coarse centre.
        """
        if has_tree(centers):
            return super().nearest(centers, number)
        labels = np.empty((len(self.x), number), np.intp)
        choice = self._near(centers)
        for i, part in self.cells():
            near = choice[i]
            about = (centers[near] - self.coarse[i]).astype(np.float32)
            for block in _blocks(part, len(near)):
                found = _nearest_places(self.about[block], about, number)
                labels[self.order[block]] = near[found]
        distances = [_paired(self.x, centers[each]) for each in labels.T]
        return np.stack(distances, axis=1), labels

    def _near(self, centers: Array) -> list[np.ndarray]:
        """For every cell the centres with which its rows are compared."""
        k, number = len(centers), len(self.coarse)
        if k < MANY_TO_COMPARE:
            return [np.arange(k)] * number
        away = squared_distances(self.coarse, centers)
        home = away.argmin(axis=0)
        away[home, np.arange(k)] = -1.0
        most = np.maximum(np.bincount(home, minlength=number), min(k, NEAR_CELLS * -(-k // number)))
        return [np.sort(np.argpartition(a, m - 1)[:m]) for a, m in zip(away, most, strict=True)]

    def draw(self, weight: Array, k: int, rng: np.random.Generator) -> Array:
        """K of the rows: k-means++ in which a centre is compared with the rows of its cell alone.

        A cell is drawn with probability proportional to the sum of weighted squared distances of
        its rows from their centres, and then rows of it, of which the best is taken.
        """
        cells = self.cells()
        places = [self.order[part] for _, part in cells]
        mass = [weight[own] for own in places]
        left = [
            squared_distances(self.x[own], self.x[own].mean(axis=0)[None])[:, 0] for own in places
        ]
        total = np.array([m @ each for m, each in zip(mass, left, strict=True)])
        chosen, taken = np.empty(k, np.intp), np.zeros(len(cells), bool)
        for j in range(k):
            i = int(_drawn(total, rng.random(1))[0])
            rows, drawn = self.about[cells[i][1]], _drawn(mass[i] * left[i], rng.random(CANDIDATES))
            distances = squared_distances(rows, rows[drawn])
            if taken[i]:  # else the distances are from the mean, which is no centre
                np.minimum(distances, left[i][:, None], out=distances)
            best = int((mass[i] @ distances).argmin())
            left[i], taken[i], chosen[j] = distances[:, best], True, places[i][drawn[best]]
            total[i] = mass[i] @ left[i]
        return self.x[chosen]


def _drawn(mass: Array, uniforms: Array) -> np.ndarray:
    """Places with probabilities proportional to mass; uniform where all mass is zero."""
    cumulative = np.cumsum(mass)
    if not cumulative[-1] > 0.0:
        return np.asarray((uniforms * len(mass)).astype(np.intp))
    found = np.searchsorted(cumulative, uniforms * cumulative[-1])
    return np.asarray(np.minimum(found, len(mass) - 1))
