"""Components with a common centre and different orientations."""

from __future__ import annotations

import numpy as np

from mixfold.core.initializer import Initializer
from mixfold.core.rows import Array, Rows
from mixfold.core.value import value
from mixfold.models.assignment import from_groups, real_columns, spread_centers, weights_of
from mixfold.models.clustering import some_of, standardized
from mixfold.models.mixture_model import MixtureModel, MixtureParams

ITERATIONS = 8
ENOUGH_ROWS = 2000


@value
class Directional(Initializer[MixtureModel, MixtureParams]):
    """Rows are divided by the line through the mean on which they lie, in standardised columns.

    The components have about the same mean, and are long in different directions. The groups are
    those of k-means for axes, in which rows count by their squared distance from the mean: the axis
    of a group is its first principal component. The family must allow any real numbers.

    Reference: Sra and Karp (2013), The multivariate Watson distribution.
    """

    def draw(self, model: MixtureModel, rows: Rows, rng: np.random.Generator) -> MixtureParams:
        real_columns(model, "directional")
        z = standardized(rows)
        square = np.square(z).sum(axis=1)
        axes = z / np.sqrt(np.maximum(square, 1e-300))[:, None]
        weight = weights_of(rows) * square
        chosen = some_of(Rows(axes, weight), ENOUGH_ROWS, rng)
        some = Rows(axes[chosen], weight[chosen])
        centers = spread_centers(_away, model.k, some, rng)
        labels = np.square(axes @ _moved(some.x, weight[chosen], centers).T).argmax(axis=1)
        for group in np.flatnonzero(np.bincount(labels, minlength=model.k) == 0):
            labels[rng.integers(len(labels))] = group
        return from_groups(model, rows, labels)


def _away(axes: Array, centers: Array, _: Array) -> Array:
    """Squared sines of the angles between axes (n, K)."""
    return np.maximum(1.0 - np.square(axes @ centers.T), 0.0)


def _moved(axes: Array, weight: Array, centers: Array) -> Array:
    """The axes of groups after some iterations of k-means."""
    for _ in range(ITERATIONS):
        labels = np.square(axes @ centers.T).argmax(axis=1)
        before = centers.copy()
        for k in range(len(centers)):
            own = labels == k
            if weight[own].any():
                mean = (weight[own, None] * axes[own]).T @ axes[own]
                centers[k] = np.linalg.eigh(mean)[1][:, -1]
        if np.allclose(np.abs((before * centers).sum(axis=1)), 1.0, atol=1e-6):
            break
    return centers
