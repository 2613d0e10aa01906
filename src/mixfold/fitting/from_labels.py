"""Initial parameters from the rows whose labels are known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixfold.core.initializer import Initializer
from mixfold.core.rows import Array, Rows
from mixfold.core.value import value
from mixfold.families.labelled_rows import UNKNOWN, LabelledRows
from mixfold.models.assignment import MEAN_SHRINKAGE, from_labels, weights_of
from mixfold.models.mixture_model import MixtureModel, MixtureParams

FAR = float(np.finfo(np.float64).max)


@value
class FromLabels(Initializer[MixtureModel, MixtureParams]):
    """Components of the rows with their labels; others are those of rows far from these.

    The centre of a component is the mean of the rows whose label is its own. Those of components
    that share a label, or have none, are drawn as in k-means++ from rows that may belong to them.
    Rows with a label then belong to the nearest component that it allows; of the others, those that
    are nearest to a component without a label belong to it.
    """

    def draw(self, model: MixtureModel, rows: Rows, rng: np.random.Generator) -> MixtureParams:
        family = model.family
        assert isinstance(family, LabelledRows)
        rows = Rows(rows.x.astype(np.float64, copy=False), rows.weight)
        allowed = family.allowed_in(rows.x)
        known = (rows.x[:, -1] != UNKNOWN) & (weights_of(rows) > 0.0)
        centers = _centers(model, rows, allowed, known, rng)
        distance = model.family.divergence(rows.x, centers, weights_of(rows))
        distance = np.nan_to_num(distance, nan=FAR, posinf=FAR)
        nearest = np.where(allowed, distance, np.inf).argmin(axis=1)
        unlabelled = ~(allowed & known[:, None]).any(axis=0)
        nearest[~known & ~unlabelled[nearest]] = -1  # of no component
        return from_labels(model, rows, nearest, MEAN_SHRINKAGE)


def _centers(
    model: MixtureModel,
    rows: Rows,
    allowed: NDArray[np.bool_],
    known: NDArray[np.bool_],
    rng: np.random.Generator,
) -> Array:
    """A centre for every component, (K, d)."""
    x, weight = rows.x, weights_of(rows)
    centers, there = np.empty((model.k, model.d)), np.zeros(model.k, dtype=bool)
    single = known & (allowed.sum(axis=1) == 1)
    for k in range(model.k):
        own = single & allowed[:, k]
        if own.any():
            centers[k], there[k] = _center(x[own], weight[own]), True
    for k in np.flatnonzero(~there).tolist():
        own, others = known & allowed[:, k], ~known & (weight > 0.0)
        mass = weight * (own if own.any() else others if others.any() else 1.0)
        if there.any():
            nearest = model.family.divergence(x, centers[there], weight).min(axis=1)
            mass = mass * nearest if (mass * nearest).any() else mass
        centers[k], there[k] = x[rng.choice(len(x), p=mass / mass.sum())], True
    return centers


def _center(x: Array, weight: Array) -> Array:
    return np.asarray(weight @ x / weight.sum())
