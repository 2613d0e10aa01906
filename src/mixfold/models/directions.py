"""Projection pursuit: directions in which rows are far from normal."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mixfold.core.rows import Array

Contrast = Callable[[Array], tuple[Array, Array]]
"""A function g of projections, and its derivative."""

FIRST, THEN = 6, 10  # iterations from all directions on some rows, and from the best on all
FEWER_ROWS, KEPT, RANDOM = 4000, 6, 4
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
    # in random order, as the first rows of a sample may be alike
    some = rng.permutation(len(z))[:FEWER_ROWS]
    part, mass = z[some], weight[some] / max(float(weight[some].sum()), 1e-300)
    begin = _starts(z, weight, rng)
    begin = np.hstack([begin, *(_iterated(part, mass, begin, kind, FIRST) for kind in CONTRASTS)])
    best = begin[:, np.argsort(entropies(part @ begin, mass), kind="stable")[:KEPT]]
    found = np.hstack([best, *(_iterated(z, weight, best, kind, THEN) for kind in CONTRASTS)])
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


def _starts(z: Array, weight: Array, rng: np.random.Generator) -> Array:
    """The axes, eigenvectors of the matrix of fourth moments, and random directions."""
    size = weight * np.square(z).sum(axis=1)
    vectors = np.linalg.eigh((size[:, None] * z).T @ z)[1]
    drawn = rng.standard_normal((z.shape[1], RANDOM))
    return np.hstack([np.eye(len(vectors)), vectors, drawn / np.sqrt(np.square(drawn).sum(axis=0))])


def _cube(u: Array) -> tuple[Array, Array]:
    return u * u * u, 3.0 * u * u


def _square(u: Array) -> tuple[Array, Array]:
    return u * u, 2.0 * u


def _tanh(u: Array) -> tuple[Array, Array]:
    value = np.tanh(u)
    return value, 1.0 - value * value


CONTRASTS: tuple[Contrast, ...] = (_cube, _square, _tanh)


def _iterated(z: Array, weight: Array, directions: Array, contrast: Contrast, most: int) -> Array:
    """Fixed-point iterations w <- E[z g(w'z)] - E[g'(w'z)] w, each direction by itself."""
    weighted = weight[:, None] * z
    for _ in range(most):
        value, slope = contrast(z @ directions)
        moved = weighted.T @ value - directions * (weight @ slope)
        size = np.sqrt(np.square(moved).sum(axis=0))
        moved = np.where(size > 1e-12, moved / np.maximum(size, 1e-12), directions)
        change = 1.0 - np.abs((moved * directions).sum(axis=0)).min()
        directions = moved
        if change < 1e-4:
            break
    return np.asarray(directions)


def entropies(u: Array, weight: Array) -> Array:
    """The differential entropy of each column, less that of a normal of the same variance.

    It is estimated from spacings (Vasicek 1976), which are not taken to be below a thousandth of a
    deviation, so that ties do not count for more than other clusters.
    """
    u, weight = u[:ENTROPY_ROWS], weight[:ENTROPY_ROWS]
    n, weight = len(u), weight / max(float(weight.sum()), 1e-300)
    step = max(1, int(np.sqrt(n) / 2))
    if n <= 2 * step:
        return np.zeros(u.shape[1])
    order = np.argsort(u, axis=0, kind="stable")
    sorted_u, mass = np.take_along_axis(u, order, axis=0), weight[order]
    cumulative = np.cumsum(mass, axis=0)
    mean = (mass * sorted_u).sum(axis=0)
    deviation = np.sqrt((mass * np.square(sorted_u - mean)).sum(axis=0))
    deviation = np.where(deviation > 0.0, deviation, 1.0)
    wide = (sorted_u[2 * step :] - sorted_u[: -2 * step]) / deviation
    inside = np.maximum(cumulative[2 * step :] - cumulative[: -2 * step], 1e-300)
    logs = np.log(np.maximum(wide, 1e-3) / inside)
    held = mass[step:-step]
    total = np.maximum(held.sum(axis=0), 1e-300)
    return np.asarray((held * logs).sum(axis=0) / total - LOG_SPREAD)
