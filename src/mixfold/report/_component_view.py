"""The components of a mixture at one moment, in an order that does not change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mixfold.core.capabilities import CovarianceMatrices
from mixfold.core.family import Family
from mixfold.core.rows import Array

POINTS = 61  # of an ellipse
LARGEST_INVERTED = 200  # columns


@dataclass(frozen=True)
class ComponentView:
    """Weights (K,) and means (K, d) of components, NaN where there are none, and all parameters."""

    weights: Array
    means: Array
    family: Family
    params: Any


def view_of(mixture: Any) -> ComponentView:
    """The components as the mixture has them."""
    weights = np.asarray(mixture.weights_, dtype=np.float64)
    found = getattr(mixture, "means_", None)
    shape = (len(weights), mixture.n_features_in_)
    family, params = mixture.model_.family.for_complete_rows(), mixture.params_.components
    if found is None or np.shape(found) != shape:
        return ComponentView(weights, np.full(shape, np.nan), family, params)
    means = np.where(np.isfinite(found), found, np.nan)
    for factor in getattr(mixture.model_.family, "factors", ()):
        if factor.levels is not None:  # the mean of codes says nothing
            means[:, list(factor.positions)] = np.nan
    return ComponentView(weights, means, family, params)


class StableOrder:
    """Gives components places that they keep, by the means they had before."""

    def __init__(self, places: int) -> None:
        self._means: Array | None = None
        self._weights = np.zeros(places)
        self.places = places

    def order(self, view: ComponentView, scale: Array) -> Array:
        """The place of every component; `scale` are the deviations of the columns."""
        k = len(view.weights)
        if self._means is None or k > self.places:
            self.places = max(self.places, k)
            chosen = np.arange(k)
        else:
            from scipy.optimize import linear_sum_assignment

            cost = self._cost(view, scale)
            found, places = linear_sum_assignment(cost)
            chosen = np.empty(k, dtype=np.intp)
            chosen[found] = places
        means = np.full((self.places, view.means.shape[1]), np.nan)
        weights = np.zeros(self.places)
        means[chosen], weights[chosen] = view.means, view.weights
        self._means, self._weights = means, weights
        return np.asarray(chosen)

    def _cost(self, view: ComponentView, scale: Array) -> Array:
        """How far every component is from what each place held, in deviations."""
        assert self._means is not None
        apart = (view.means[:, None] - self._means[None]) / scale
        far = np.nansum(np.square(apart), axis=2)
        empty = self._weights == 0.0
        far[:, empty] = 1e12  # only if there is no other place
        return np.asarray(far + np.abs(view.weights[:, None] - self._weights))


def placed(values: Array, order: Array, places: int) -> Array:
    """Values of components at their places; NaN at the others."""
    found = np.full((places, *values.shape[1:]), np.nan)
    found[order] = values
    return found


def importance(view: ComponentView, scale: Array) -> Array:
    """How far apart the means of each column are, in deviations; 0 where it has no means."""
    means = np.where(np.isnan(view.means), 0.0, view.means)
    middle = view.weights @ means
    spread = np.sqrt(view.weights @ np.square(means - middle))
    return np.asarray(np.where(np.isnan(view.means).any(axis=0), 0.0, spread / scale))


def ellipses(view: ComponentView, columns: tuple[int, int]) -> Array | None:
    """Points of the ellipses (K, points, 2) in which a component has 86% of its rows.

    They are at two deviations; None for families without covariances.
    """
    k, d = view.means.shape
    if not isinstance(view.family, CovarianceMatrices) or d > LARGEST_INVERTED:
        return None
    means, roots = view.means[:, list(columns)], _roots(view.family, view.params, k, d)
    angles = np.linspace(0.0, 2.0 * np.pi, POINTS)
    circle = 2.0 * np.column_stack([np.cos(angles), np.sin(angles)])
    return np.stack([m + circle @ _half(r, columns).T for m, r in zip(means, roots, strict=True)])


def _roots(family: CovarianceMatrices[Any], params: Any, k: int, d: int) -> Array:
    """Square roots of precisions, (K, d, d), or (K, d) of columns that are independent."""
    root = np.asarray(family.precision_roots(params))
    if family.form == "triangular":
        return np.broadcast_to(root, (k, d, d))
    return np.broadcast_to(root if root.ndim == 2 else root[:, None], (k, d))


def _half(root: Array, columns: tuple[int, int]) -> Array:
    """A square root of the covariance of two columns."""
    chosen = list(columns)
    if root.ndim == 1:
        return np.diag(1.0 / np.abs(root[chosen]))
    covariance = np.linalg.inv(root @ root.T)[np.ix_(chosen, chosen)]
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
