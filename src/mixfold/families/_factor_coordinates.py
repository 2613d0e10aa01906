"""Local coordinates of Gaussians with latent factors, without rotations of the factors.

A change of the loadings L by AL, where A is skew-symmetric, rotates the factors and leaves L'L as
it is. Coordinates are those of the complement of these changes. What users see are covariances.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from mixfold.core.rows import Array
from mixfold.families._differentiated_scores import Coordinates
from mixfold.families._shown_attributes import Attributes, shown_attributes
from mixfold.families.factor_analysis import FactorParams
from mixfold.families.gaussian import FactorGaussian, Gaussian


def factor_coordinates(
    family: FactorGaussian, params: FactorParams, limited: NDArray[np.bool_]
) -> Coordinates:
    """The coordinates at these parameters."""
    here, lengths = family.unconstrained(params), family.coordinate_scales(params)
    free = _without_rotations(params, lengths)
    k, q = len(here), free.shape[2]

    def at(change: Array) -> FactorParams:
        moved = (free @ change[:, :, None])[:, :, 0]
        return family.constrained(here + lengths * moved, params)

    def covariances(params: FactorParams) -> Array:
        return Gaussian().covariances(family.dense(params))

    attributes: Attributes = {
        "means": lambda params: params.means,
        "covariances": covariances,
        "noise_variance": lambda params: params.noise_variance,
    }
    index = np.arange(k * q).reshape(k, q)
    return Coordinates(
        at, index, k * q, lambda: shown_attributes(attributes, False, params, at, q, limited)
    )


def _without_rotations(params: FactorParams, lengths: Array) -> Array:
    """Orthonormal columns (K, all coordinates, q) that are orthogonal to rotations."""
    k, q, d = params.loadings.shape
    pairs = list(combinations(range(q), 2))
    turns = np.zeros((k, len(pairs), 2 * d + q * d))
    for number, (a, b) in enumerate(pairs):
        change = np.zeros_like(params.loadings)
        change[:, a], change[:, b] = params.loadings[:, b], -params.loadings[:, a]
        turns[:, number, d:-d] = change.reshape(k, -1)
    _, _, basis = np.linalg.svd(turns / lengths[:, None], full_matrices=True)
    return np.asarray(basis[:, len(pairs) :].swapaxes(1, 2))
