"""Local coordinates of Gaussians whose volumes, shapes or orientations are shared or fixed.

At coordinates (a, u, s, o) a component of mean mu and covariance D diag(v) D' = LL' has the mean
mu + La and the covariance of variances v exp(u + Cs), where the columns of C are contrasts, and of
axes D (I - O/2)^-1 (I + O/2), where O is the skew-symmetric matrix of o.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert

from mixfold.core.rows import Array
from mixfold.families._differentiated_scores import Coordinates
from mixfold.families._gaussian_params import GaussianParams
from mixfold.families._shown_attributes import attributes_of, shown_attributes
from mixfold.families.gaussian import Gaussian


def shape_coordinates(
    family: Gaussian, params: GaussianParams, limited: NDArray[np.bool_]
) -> Coordinates:
    """The coordinates of a Gaussian with one of mclust's names at these parameters."""
    k, d = params.means.shape
    axes, variances = _axes(family, params)
    roots = axes * np.sqrt(variances)[:, None]
    contrasts = helmert(d).T  # (d, d - 1)
    i, j = np.tril_indices(d, -1)

    def at(change: Array) -> GaussianParams:
        a, u, s, o = np.split(change, [d, d + 1, 2 * d], axis=1)
        means = params.means + (roots @ a[:, :, None])[:, :, 0]
        found = variances * np.exp(u + s @ contrasts.T)
        if params.scale.ndim == 2:
            return GaussianParams(means, np.sqrt(found))
        skew = np.zeros((k, d, d))
        skew[:, i, j], skew[:, j, i] = 0.5 * o, -0.5 * o
        turned = axes @ np.linalg.solve(np.eye(d) - skew, np.eye(d) + skew)
        square = (turned * found[:, None]) @ turned.swapaxes(1, 2)
        return GaussianParams(means, np.linalg.cholesky(square))

    index, n_free = _index(family.covariance, k, d)
    q = index.shape[1]
    attributes = attributes_of(family, params)
    return Coordinates(
        at, index, n_free, lambda: shown_attributes(attributes, False, params, at, q, limited)
    )


def _index(name: str, k: int, d: int) -> tuple[NDArray[np.intp], int]:
    """The free coordinates of all components, and their number."""
    parts = [np.arange(k * d).reshape(k, d)]
    n_free = k * d
    for letter, width in zip(name, (1, d - 1, d * (d - 1) // 2), strict=True):
        if letter == "I":
            parts.append(np.full((k, width), -1))
            continue
        own = n_free + np.arange(width if letter == "E" else k * width)
        parts.append(np.tile(own, (k, 1)) if letter == "E" else own.reshape(k, width))
        n_free += len(own)
    return np.hstack(parts), n_free


def _axes(family: Gaussian, params: GaussianParams) -> tuple[Array, Array]:
    """Axes (K, d, d) and the variances along them (K, d), by a common order."""
    k, d = params.means.shape
    if params.scale.ndim == 2:
        variances = np.broadcast_to(np.square(params.scale), (k, d))
        return np.broadcast_to(np.eye(d), (k, d, d)), variances
    covariances = params.scale @ params.scale.swapaxes(1, 2)
    if family.covariance[2] == "V":
        variances, axes = np.linalg.eigh(covariances)
        return axes, variances
    # a sum with different weights has the common axes, also where single matrices have equal values
    scaled = covariances / np.trace(covariances, axis1=1, axis2=2)[:, None, None]
    mixed = np.tensordot(np.random.default_rng(0).uniform(1.0, 2.0, size=k), scaled, 1)
    axes = np.linalg.eigh(mixed)[1]
    variances = np.einsum("ij,kil,lj->kj", axes, covariances, axes)
    return np.broadcast_to(axes, (k, d, d)), variances
