"""Volumes, shapes and orientations that components share: mclust's names for covariances.

The covariance of component k is lambda_k D_k A_k D_k', with a volume lambda, a diagonal shape A of
determinant 1 and an orientation D. The three letters of a name say of volume, shape and
orientation, in this order, whether they are equal (E), vary (V), or are those of the identity (I).
All functions get the weights of components and their covariances as they are estimated without a
constraint, and return the constrained covariances of the highest likelihood.

References: Celeux and Govaert (1995), Gaussian parsimonious clustering models; Scrucca, Fop, Murphy
and Raftery (2016), mclust 5; Flury and Gautschi (1986), An algorithm for simultaneous orthogonal
transformation of several positive definite symmetric matrices to nearly diagonal form.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np

from mixfold.core.rows import Array
from mixfold.core.statistics import unpack
from mixfold.core.variance_floors import ROUNDING
from mixfold.families._covariance import (
    STRUCTURES,
    Covariance,
    Diag,
    Full,
    cholesky_floored,
    regularized,
    widened,
)

MOST_STEPS, FEW_SWEEPS, MOST_SWEEPS = 500, 3, 100
MOST_BEGUN = 5  # components whose axes rotations begin at
ENOUGH = 1e-14  # relative change of the likelihood after which rotations end
SMALL_CHANGE = 1e-12  # relative change of volumes after which iterations end
SMALLEST, LEAST_SHARE = 1e-300, 1e-100

Variances = Callable[[Array, Array], Array]
"""Constrained variances of components (K, d), from their weights and variances."""


def _shares(weight: Array) -> Array:
    """Normalised weights, none of them zero, by which sums of the parts are divided."""
    return np.asarray(np.maximum(weight / weight.sum(), LEAST_SHARE))


def _determinants(variances: Array) -> Array:
    """Geometric means of variances, (K, 1)."""
    return np.asarray(np.exp(np.log(np.maximum(variances, SMALLEST)).mean(axis=1, keepdims=True)))


def _equal_volumes(weight: Array, variances: Array) -> Array:
    """Own shapes and one volume."""
    volumes = _determinants(variances)
    return np.asarray(variances / volumes * ((weight / weight.sum()) @ volumes))


def _equal_shapes(weight: Array, variances: Array) -> Array:
    """One shape and own volumes: each is given the other, in turn, until they do not change."""
    shares = _shares(weight)
    shape = np.maximum(shares @ variances, SMALLEST)
    volumes = np.ones((len(variances), 1))
    for _ in range(MOST_STEPS):
        before, volumes = volumes, _volumes((variances / shape).mean(axis=1, keepdims=True))
        if (np.abs(volumes - before) <= SMALL_CHANGE * volumes).all():
            break
        shape = np.maximum(shares @ (variances / volumes), SMALLEST)
    return np.asarray(volumes * shape)


def _volumes(found: Array) -> Array:
    return np.maximum(found, SMALLEST)


def _equal(weight: Array, variances: Array) -> Array:
    """One volume and one shape."""
    return np.tile((weight / weight.sum()) @ variances, (len(variances), 1))


def _own(weight: Array, variances: Array) -> Array:
    """Own volumes and shapes."""
    return variances


VARIANCES: dict[str, Variances] = {
    "EE": _equal,
    "VE": _equal_shapes,
    "EV": _equal_volumes,
    "VV": _own,
}


class ConstrainedDiagonal(Diag):
    """Diagonal covariances whose volumes or shapes are equal: EEI, VEI, EVI; EII with a sphere."""

    def __init__(self, name: str) -> None:
        self.name = name

    def factorize(
        self, weight: Array, scatter: Array, reg: float, least: float, floor: Array
    ) -> tuple[Array, int]:
        # a variance of zero would make the volume zero
        variances = np.maximum(np.maximum(scatter + reg, least), floor)
        if self.name[1] == "I":
            variances = np.tile(variances.mean(axis=1, keepdims=True), (1, scatter.shape[1]))
            return self._floored(_equal(weight, variances), floor)
        return self._floored(VARIANCES[self.name[:2]](weight, variances), floor)

    def n_parameters(self, k: int, d: int) -> int:
        return _n_variances(self.name, k, d)


class ConstrainedFull(Full):
    """Matrices of which volumes, shapes or orientations are equal: VEE, EVE, VVE, EEV, VEV, EVV."""

    def __init__(self, name: str) -> None:
        self.name = name

    def factorize(
        self, weight: Array, scatter: Array, reg: float, least: float, floor: Array
    ) -> tuple[Array, int]:
        covariance = widened(regularized(unpack(scatter, len(floor)), reg), least)
        scale, _ = cholesky_floored(covariance, floor)  # else volumes may be zero
        covariance = scale @ scale.swapaxes(1, 2)
        return cholesky_floored(self._constrained(weight, covariance), floor)

    def _constrained(self, weight: Array, covariance: Array) -> Array:
        if self.name == "VEE":
            return _equal_matrices(weight, covariance)
        variances = VARIANCES[self.name[:2]]
        if self.name[2] == "E":
            return _one_orientation(weight, covariance, variances)
        found, vectors = np.linalg.eigh(covariance)
        least = ROUNDING * found[:, -1:]  # of eigenvalues that may be negative by rounding
        return _turned(variances(weight, np.maximum(found, least)), vectors)

    def n_parameters(self, k: int, d: int) -> int:
        orientations = 1 if self.name[2] == "E" else k
        return _n_variances(self.name, k, d) + orientations * d * (d - 1) // 2


def _n_variances(name: str, k: int, d: int) -> int:
    """Free parameters of volumes and shapes."""
    volumes = k if name[0] == "V" else 1
    return volumes + {"I": 0, "E": 1, "V": k}[name[1]] * (d - 1)


def _turned(variances: Array, vectors: Array) -> Array:
    """D diag(variances) D' for each component."""
    return np.asarray((vectors * variances[:, None, :]) @ vectors.swapaxes(-1, -2))


def _equal_matrices(weight: Array, covariance: Array) -> Array:
    """Multiples of one matrix: volumes are given the matrix and the reverse, in turn."""
    shares, d = _shares(weight), covariance.shape[1]
    common = np.tensordot(shares, covariance, 1)
    volumes = np.ones(len(covariance))
    for _ in range(MOST_STEPS):
        traces = np.trace(np.linalg.solve(_invertible(common), covariance), axis1=1, axis2=2)
        before, volumes = volumes, _volumes(traces / d)
        if (np.abs(volumes - before) <= SMALL_CHANGE * volumes).all():
            break
        common = np.tensordot(shares / volumes, covariance, 1)
    return np.asarray(volumes[:, None, None] * common)


def _invertible(matrix: Array) -> Array:
    """The matrix with a hardly visible multiple of the identity added."""
    d = len(matrix)
    return np.asarray(matrix + (ENOUGH * np.trace(matrix) / d + SMALLEST) * np.eye(d))


def _one_orientation(weight: Array, covariance: Array, variances: Variances) -> Array:
    """One orientation for all.

    Rotations begin at the axes of the mean matrix and at those of the heaviest components, as there
    may be several maxima, and go on where a few of them have led furthest.
    """
    pooled = np.tensordot(weight / weight.sum(), covariance, 1)
    heaviest = covariance[np.argsort(-weight, kind="stable")[:MOST_BEGUN]]
    begun = []
    for matrix in (pooled, *heaviest):
        vectors = np.linalg.eigh(matrix)[1]
        begun.append(_rotated(weight, covariance, variances, vectors, FEW_SWEEPS))
    best = min(begun, key=lambda each: each[0])[1]
    vectors = _rotated(weight, covariance, variances, best, MOST_SWEEPS)[1]
    own = _inner_variances(covariance, vectors)
    return _turned(variances(weight, own), np.broadcast_to(vectors, covariance.shape))


def _inner_variances(covariance: Array, vectors: Array) -> Array:
    """Variances along the axes, (K, d)."""
    return np.asarray(np.einsum("ij,kil,lj->kj", vectors, covariance, vectors))


def _rotated(
    weight: Array, covariance: Array, variances: Variances, vectors: Array, most: int
) -> tuple[float, Array]:
    """Axes after rotations of pairs of them until the likelihood stays, and minus twice its log."""
    inner, vectors = vectors.T @ covariance @ vectors, vectors.copy()
    loss = np.inf
    for _ in range(most):
        for i, j in combinations(range(len(vectors)), 2):
            turn = _best_turn(weight, inner, variances, i, j)
            inner[:, [i, j]] = turn.T @ inner[:, [i, j]]
            inner[:, :, [i, j]] = inner[:, :, [i, j]] @ turn
            vectors[:, [i, j]] = vectors[:, [i, j]] @ turn
        own = np.diagonal(inner, axis1=1, axis2=2)
        found = np.maximum(variances(weight, own), SMALLEST)
        before, loss = loss, float(weight @ (np.log(found) + own / found).sum(axis=1))
        if before - loss <= ENOUGH * (abs(loss) + weight.sum()):
            break
    return loss, vectors


def _best_turn(weight: Array, inner: Array, variances: Variances, i: int, j: int) -> Array:
    """The rotation (2, 2) of two axes that fits the present variances best."""
    own = np.diagonal(inner, axis1=1, axis2=2)
    found = np.maximum(variances(weight, own), SMALLEST)
    precision = weight * (1.0 / found[:, i] - 1.0 / found[:, j])
    block = np.tensordot(precision, inner[:, [[i, i], [j, j]], [[i, j], [i, j]]], 1)
    # the first axis has the smaller of both eigenvalues of the sum
    angle = 0.5 * np.arctan2(-2.0 * block[0, 1], block[1, 1] - block[0, 0])
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.array([[cosine, -sine], [sine, cosine]])


# mclust's names of structures that scikit-learn has names for
SAME = {"VII": "spherical", "VVI": "diag", "EEE": "tied", "VVV": "full"}
CONSTRAINED: dict[str, Covariance] = {
    **{name: ConstrainedDiagonal(name) for name in ("EII", "EEI", "VEI", "EVI")},
    **{name: ConstrainedFull(name) for name in ("VEE", "EVE", "VVE", "EEV", "VEV", "EVV")},
}


def structure_of(name: str) -> Covariance | None:
    """The structure with a name of scikit-learn or mclust; None if it has none."""
    return STRUCTURES.get(SAME.get(name, name), CONSTRAINED.get(name))


NAMES = (*STRUCTURES, *sorted((*SAME, *CONSTRAINED)))
