"""Volumes, shapes and orientations that components share: mclust's names for covariances.

The covariance of component k is lambda_k D_k A_k D_k', with a volume lambda, a diagonal shape A of
determinant 1 and an orientation D. The three letters of a name say of volume, shape and
orientation, in this order, whether they are equal (E), vary (V), or are those of the identity (I).
All functions get the weights of components and their covariances as they are estimated without a
constraint, and return the constrained covariances of the highest likelihood.

References: Celeux and Govaert (1995), Gaussian parsimonious clustering models; Scrucca, Fop, Murphy
and Raftery (2016), mclust 5.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mixfold.core.rows import Array
from mixfold.core.statistics import unpack
from mixfold.core.variance_floors import ROUNDING
from mixfold.families._common_axes import SMALLEST, common_axes, equal_volumes
from mixfold.families._common_shape import AtVolumes, log_volumes
from mixfold.families._covariance import (
    STRUCTURES,
    Covariance,
    Diag,
    Full,
    cholesky_floored,
    regularized,
    widened,
)

LEAST_SHARE = 1e-100
SLIGHT = 1e-14  # multiple of the identity that makes a matrix invertible

Variances = Callable[[Array, Array], Array]
"""Constrained variances of components (K, d), from their weights and variances."""


def _shares(weight: Array) -> Array:
    """Normalised weights, none of them zero, by which sums of the parts are divided."""
    return np.asarray(np.maximum(weight / weight.sum(), LEAST_SHARE))


def _equal_shapes(weight: Array, variances: Array) -> Array:
    """One shape and own volumes."""
    shares = _shares(weight)
    variances = np.maximum(variances, SMALLEST)

    def evaluate(u: Array) -> AtVolumes:
        scaled = variances * np.exp(-u)[:, None]
        shape = shares @ scaled
        ratios = scaled / shape
        return AtVolumes(
            float(np.log(shape).mean()), ratios.mean(axis=1), ratios @ ratios.T / len(shape)
        )

    u = log_volumes(shares, np.log(variances).mean(axis=1), evaluate)
    volumes = np.exp(u)[:, None]
    return np.asarray(volumes * (shares @ (variances / volumes)))


def _equal(weight: Array, variances: Array) -> Array:
    """One volume and one shape."""
    return np.tile((weight / weight.sum()) @ variances, (len(variances), 1))


def _own(weight: Array, variances: Array) -> Array:
    """Own volumes and shapes."""
    return variances


VARIANCES: dict[str, Variances] = {
    "EE": _equal,
    "VE": _equal_shapes,
    "EV": equal_volumes,
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

    def undetermined(self, counts: Array, d: int) -> NDArray[np.bool_]:
        """Which components have too few rows for the likelihood to bound their variances.

        The scatter of n rows about their mean has n - 1 dimensions. A matrix common to all has
        those of all rows, a common shape those of the component with most, and an own shape, whose
        axes may be chosen to suit it, those of its own. The constraint is applied to matrices with
        floors and moves their variances, so that these end above the floors.
        """
        if self.name == "VEE":
            return np.full(len(counts), counts.sum() - len(counts) < d)
        few = counts - 1.0 < d
        return few if self.name[1] == "V" else np.full(len(counts), few.all())

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
    """Multiples of one matrix."""
    shares, d = _shares(weight), covariance.shape[1]

    def scaled(u: Array) -> Array:
        return np.asarray(covariance * np.exp(-u)[:, None, None])

    def evaluate(u: Array) -> AtVolumes:
        each = scaled(u)
        common = _invertible(np.tensordot(shares, each, 1))
        ratios = np.linalg.solve(common, each)
        traces = np.trace(ratios, axis1=1, axis2=2)
        products = np.einsum("kij,lji->kl", ratios, ratios)
        return AtVolumes(float(np.linalg.slogdet(common)[1]) / d, traces / d, products / d)

    u = log_volumes(shares, np.linalg.slogdet(covariance)[1] / d, evaluate)
    return np.asarray(np.exp(u)[:, None, None] * np.tensordot(shares, scaled(u), 1))


def _invertible(matrix: Array) -> Array:
    """The matrix with a hardly visible multiple of the identity added."""
    d = len(matrix)
    return np.asarray(matrix + (SLIGHT * np.trace(matrix) / d + SMALLEST) * np.eye(d))


def _one_orientation(weight: Array, covariance: Array, variances: Variances) -> Array:
    """One orientation for all."""
    vectors = common_axes(weight, covariance, one_volume=variances is equal_volumes)
    own = np.einsum("ij,kil,lj->kj", vectors, covariance, vectors)
    return _turned(variances(weight, own), np.broadcast_to(vectors, covariance.shape))


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
