"""Projection pursuit: directions in which rows are far from normal."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixfold.core.rows import Array

FIRST, THEN = 4, 8  # iterations from all directions on some rows, and from the best on all
FEWER_ROWS, KEPT, RANDOM = 2000, 4, 4
ENTROPY_ROWS = 2000
LEAST_PART = 0.25  # of the best direction's distance from a normal, that others must have
LOG_SPREAD = 0.5 * np.log(2.0 * np.pi * np.e)  # the entropy of a standard normal


def interesting_directions(z: Array, weight: Array, number: int, rng: np.random.Generator) -> Array:
    """At most `number` directions (d, m) of sphered rows z with the least entropy, uncorrelated.

    Searches for extreme kurtosis and skewness begin at the axes, at eigenvectors of the matrix of
    fourth moments and at random directions, and of all directions met the best are kept. Axes count
    because clusters of unequal weights may have no kurtosis and no skewness in the direction in
    which they differ, which is often a principal component.

    References: Cardoso (1989), Source separation using higher order moments; Peña and Prieto
    (2001), Cluster identification using projections; Hyvärinen (1999), Fast and robust fixed-point
    algorithms for independent component analysis.
    """
    d = z.shape[1]
    if d == 1:
        return np.ones((1, 1))
    part = z[_drawn(weight, FEWER_ROWS, rng)]
    mass = np.full(len(part), 1.0 / len(part))
    begin = _starts(z, weight, rng)
    begin = np.hstack([begin, _iterated(part, mass, begin, FIRST)])
    best = begin[:, np.argsort(entropies(part @ begin, mass), kind="stable")[:KEPT]]
    found = np.hstack([best, _iterated(z, weight, best, THEN)])
    normal = rng.standard_normal((len(part), 1))
    below = entropies(normal, mass)[0] - entropies(part @ found, mass)
    chosen: list[Array] = []
    for i in np.argsort(-below, kind="stable"):
        if chosen and below[i] < LEAST_PART * below.max():
            break
        rest = found[:, i] - sum((c * (c @ found[:, i]) for c in chosen), np.zeros(d))
        size = np.sqrt(rest @ rest)
        if size > 0.5:  # else nearly a combination of those before
            chosen.append(rest / size)
        if len(chosen) == number:
            break
    return np.column_stack(chosen)


def _drawn(weight: Array, most: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers of rows in random order, each as often as its weight says.

    The order is random, as the first rows of a sample may be alike.
    """
    order = rng.permutation(len(weight))
    number = min(len(weight), most)
    cumulative = np.cumsum(weight[order])
    places = np.searchsorted(cumulative, (np.arange(number) + 0.5) * (cumulative[-1] / number))
    return np.asarray(rng.permutation(order[np.minimum(places, len(order) - 1)]))


def _starts(z: Array, weight: Array, rng: np.random.Generator) -> Array:
    """The axes, eigenvectors of the matrix of fourth moments, and random directions."""
    size = weight * np.square(z).sum(axis=1)
    vectors = np.linalg.eigh((size[:, None] * z).T @ z)[1]
    drawn = rng.standard_normal((z.shape[1], RANDOM))
    return np.hstack([np.eye(len(vectors)), vectors, drawn / np.sqrt(np.square(drawn).sum(axis=0))])


def _iterated(z: Array, weight: Array, directions: Array, most: int) -> Array:
    """Fixed-point iterations w <- E[z g(w'z)] - E[g'(w'z)] w, each direction by itself.

    Every direction is a start for the functions g(u) = u^3, u^2 and tanh u. As rows are sphered,
    the means of the derivatives of the first two are 3 and 0.
    """
    columns, weighted = np.ascontiguousarray(z.T), weight[:, None] * z
    m = directions.shape[1]
    now, slope = np.tile(directions.T, (3, 1)), np.repeat([[3.0], [0.0], [0.0]], m, axis=0)
    for _ in range(most):
        u = now @ columns
        cube, square, bounded = u[:m], u[m : 2 * m], u[2 * m :]
        cube *= np.square(cube)
        np.square(square, out=square)
        np.tanh(bounded, out=bounded)
        slope[2 * m :, 0] = 1.0 - np.square(bounded) @ weight
        moved = u @ weighted - slope * now
        size = np.sqrt(np.square(moved).sum(axis=1))[:, None]
        moved = np.where(size > 1e-12, moved / np.maximum(size, 1e-12), now)
        change = 1.0 - np.abs((moved * now).sum(axis=1)).min()
        now = moved
        if change < 1e-4:
            break
    return np.asarray(now.T)


def entropies(u: Array, weight: Array) -> Array:
    """The differential entropy of each column, less that of a normal of the same variance.

    It is estimated from spacings (Vasicek 1976), which are not taken to be below a thousandth of a
    deviation, so that ties do not count for more than other clusters.
    """
    u, weight = np.array(u[:ENTROPY_ROWS].T, order="C"), weight[:ENTROPY_ROWS]
    n, weight = u.shape[1], weight / max(float(weight.sum()), 1e-300)
    step = max(1, int(np.sqrt(n) / 2))
    if n <= 2 * step:
        return np.zeros(len(u))
    u -= (u @ weight)[:, None]
    deviation = np.sqrt(np.square(u) @ weight)
    u /= np.where(deviation > 0.0, deviation, 1.0)[:, None]
    # single precision is enough for spacings of a thousandth, and much faster
    ordered, mass = _sorted(u.astype(np.float32), weight)
    cumulative = np.cumsum(mass, axis=1)
    wide = ordered[:, 2 * step :] - ordered[:, : -2 * step]
    inside = np.maximum(cumulative[:, 2 * step :] - cumulative[:, : -2 * step], 1e-300)
    logs = np.log(np.maximum(wide, np.float32(1e-3))) - np.log(inside)
    held = mass[:, step:-step]
    total = np.maximum(held.sum(axis=1), 1e-300)
    return np.asarray((held * logs).sum(axis=1) / total - LOG_SPREAD)


def _sorted(u: NDArray[np.float32], weight: Array) -> tuple[NDArray[np.float32], Array]:
    """Every row of u sorted, and the weights in the same order, once if they are equal."""
    if (weight == weight[0]).all():
        u.sort(axis=1)
        return u, weight[None, :]
    order = np.argsort(u, axis=1, kind="stable")
    return np.take_along_axis(u, order, axis=1), weight[order]
