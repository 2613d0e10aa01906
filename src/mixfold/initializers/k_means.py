"""k-means initialisation."""

from __future__ import annotations

import numpy as np

from mixfold.core.checks import check_whole
from mixfold.core.initializer import Initializer
from mixfold.core.rows import Array, Rows
from mixfold.core.value import value
from mixfold.models.assignment import ScaledDistances, from_centers, spread_centers, weights_of
from mixfold.models.mixture_model import MixtureModel, MixtureParams


@value
class KMeans(Initializer[MixtureModel, MixtureParams]):
    """k-means++, then Lloyd's iterations: each centre moves to the mean of the rows nearest to it.

    scikit-learn calls it "kmeans". At most `max_iter` iterations are made.

    Reference: Lloyd (1982), Least squares quantization in PCM.
    """

    max_iter: int = 100

    def __post_init__(self) -> None:
        check_whole("max_iter", self.max_iter)

    def draw(self, model: MixtureModel, rows: Rows, rng: np.random.Generator) -> MixtureParams:
        centers = spread_centers(ScaledDistances(), model.k, rows, rng)
        return from_centers(model, rows, self._iterate(rows, centers))

    def _iterate(self, rows: Rows, centers: Array) -> Array:
        x, weight = rows.x.astype(np.float64, copy=False), weights_of(rows)
        before, distances = np.full(len(x), -1), ScaledDistances()
        for _ in range(self.max_iter):
            labels = distances(x, centers, weight).argmin(axis=1)
            if np.array_equal(labels, before):
                break
            centers, before = _means(x, weight, labels, centers), labels
        return centers


def _means(x: Array, weight: Array, labels: np.ndarray, centers: Array) -> Array:
    """The mean of each group of rows; a group without any weight keeps its centre."""
    after = centers.copy()
    for k in range(len(centers)):
        own = labels == k
        if weight[own].any():
            after[k] = np.average(x[own], axis=0, weights=weight[own])
    return after
