"""Axes that are common to the covariances of all components, found by rotations of pairs of them.

Reference: Flury and Gautschi (1986), An algorithm for simultaneous orthogonal transformation of
several positive definite symmetric matrices to nearly diagonal form.
"""

from __future__ import annotations

from importlib import import_module
from itertools import combinations
from typing import Any

import numpy as np

from mixfold.core.rows import Array

FEW_SWEEPS, MOST_SWEEPS = 3, 100
MOST_BEGUN = 5  # components whose axes rotations begin at
ENOUGH = 1e-14  # relative change of the likelihood after which rotations end
SMALLEST = 1e-300

try:
    _native: Any = import_module("mixfold._native")
except ImportError:  # built without a compiler
    _native = None


def equal_volumes(weight: Array, variances: Array) -> Array:
    """Variances of components (K, d) with their own shapes and one volume."""
    logs = np.log(np.maximum(variances, SMALLEST))
    volumes = np.exp(logs.mean(axis=1, keepdims=True))
    return np.asarray(variances / volumes * ((weight / weight.sum()) @ volumes))


def common_axes(weight: Array, covariance: Array, one_volume: bool) -> Array:
    """The axes (d, d), in columns, of the highest likelihood.

    Rotations begin at the axes of the mean matrix and at those of the heaviest components, as there
    may be several maxima, and go on where a few of them have led furthest.
    """
    pooled = np.tensordot(weight / weight.sum(), covariance, 1)
    heaviest = covariance[np.argsort(-weight, kind="stable")[:MOST_BEGUN]]
    begun = []
    for matrix in (pooled, *heaviest):
        vectors = np.linalg.eigh(matrix)[1]
        begun.append(rotated(weight, covariance, vectors, one_volume, FEW_SWEEPS))
    best = min(begun, key=lambda each: each[0])[1]
    return rotated(weight, covariance, best, one_volume, MOST_SWEEPS)[1]


def rotated(
    weight: Array, covariance: Array, vectors: Array, one_volume: bool, most: int
) -> tuple[float, Array]:
    """Axes after rotations of pairs of them until the likelihood stays, and minus twice its log."""
    if _native is None:
        return rotated_in_python(weight, covariance, vectors, one_volume, most)
    arrays = (np.ascontiguousarray(each) for each in (weight, covariance, vectors))
    found: tuple[float, Array] = _native.rotate_axes(*arrays, one_volume, most, ENOUGH)
    return found


def rotated_in_python(
    weight: Array, covariance: Array, vectors: Array, one_volume: bool, most: int
) -> tuple[float, Array]:
    """What `rotated` returns, without compiled code."""
    inner, vectors = vectors.T @ covariance @ vectors, vectors.copy()
    loss = np.inf
    for _ in range(most):
        for i, j in combinations(range(len(vectors)), 2):
            turn = _best_turn(weight, inner, one_volume, i, j)
            inner[:, [i, j]] = turn.T @ inner[:, [i, j]]
            inner[:, :, [i, j]] = inner[:, :, [i, j]] @ turn
            vectors[:, [i, j]] = vectors[:, [i, j]] @ turn
        own, found = _variances(weight, inner, one_volume)
        before, loss = loss, float(weight @ (np.log(found) + own / found).sum(axis=1))
        if before - loss <= ENOUGH * (abs(loss) + weight.sum()):
            break
    return loss, vectors


def _variances(weight: Array, inner: Array, one_volume: bool) -> tuple[Array, Array]:
    """The variances along the axes (K, d), as they are and as they are fitted."""
    own = np.diagonal(inner, axis1=1, axis2=2)
    return own, np.maximum(equal_volumes(weight, own) if one_volume else own, SMALLEST)


def _best_turn(weight: Array, inner: Array, one_volume: bool, i: int, j: int) -> Array:
    """The rotation (2, 2) of two axes that fits the present variances best."""
    _, found = _variances(weight, inner, one_volume)
    precision = weight * (1.0 / found[:, i] - 1.0 / found[:, j])
    block = np.tensordot(precision, inner[:, [[i, i], [j, j]], [[i, j], [i, j]]], 1)
    # the first axis has the smaller of both eigenvalues of the sum
    angle = 0.5 * np.arctan2(-2.0 * block[0, 1], block[1, 1] - block[0, 0])
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.array([[cosine, -sine], [sine, cosine]])
