"""Densities of Gaussians as expressions."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from mixfold.core.expression import Expression, observed, total
from mixfold.core.rows import Array
from mixfold.families._gaussian_params import GaussianParams
from mixfold.families.factor_analysis import LOG_2PI

MOST_INCOMPLETE = 16  # columns, for whose square there is memory in every row and component
FAR = 1e3  # standard deviations from the common origin, whose square loses too many digits


class Whitening(Protocol):
    """What is needed of a family of Gaussians."""

    def whiten(self, params: GaussianParams) -> Array:
        """Inverse scales, (K, d, d) or (K, d)."""


def distances_expression(
    family: Whitening, params: GaussianParams, x: Expression, marginalize: bool
) -> Expression:
    """Squared Mahalanobis distances, (n, K).

    Products of matrices about a common origin; with `marginalize`, missing cells are left out
    where covariances are diagonal.
    """
    means, whiten = params.means, family.whiten(params)
    k, d = means.shape
    origin: Array = means.mean(axis=0)
    x, away = x - origin, means - origin
    if whiten.ndim == 3 and len(params.scale) == 1 < k:  # all components share it
        root: Array = whiten[0].T
        return ((x @ root).with_axis(1) - away @ root).square().sum(2)
    if whiten.ndim == 3:
        shift: Array = (whiten @ away[:, :, None])[:, :, 0]
        return ((x @ whiten.reshape(k * d, d).T).shaped(-1, k, d) - shift).square().sum(2)
    if float(np.abs(away * whiten).max()) > FAR:
        z = (x.with_axis(1) - away) * whiten
        return (observed(x.with_axis(1), z) if marginalize else z).square().sum(2)
    precision, known = np.square(whiten).T, observed(x, x) if marginalize else x
    near = known.square() @ precision - 2.0 * (known @ (away.T * precision))
    return near + constants(x, np.square(away).T * precision, marginalize)


def constants(x: Expression, of_columns: Array, marginalize: bool) -> Expression | Array:
    """Sums (n, K) over the observed columns of (d, K) constants, or over all columns."""
    if not marginalize:
        return np.asarray(of_columns.sum(axis=0))
    return x.is_missing().choose(0.0, 1.0) @ of_columns


def density_expression(
    family: Whitening, params: GaussianParams, x: Expression, marginalize: bool
) -> Expression:
    """log p(x|k), (n, K)."""
    distances, whiten = distances_expression(family, params, x, marginalize), family.whiten(params)
    if whiten.ndim == 2:
        return -0.5 * distances + constants(x, np.log(whiten).T - 0.5 * LOG_2PI, marginalize)
    logs: Array = np.log(np.diagonal(whiten, axis1=1, axis2=2)).sum(axis=1)
    constant: Array = logs - 0.5 * whiten.shape[1] * LOG_2PI
    return -0.5 * distances + constant


def observed_density_expression(means: Array, covariances: Array, x: Expression) -> Expression:
    """log p(x|k) of the observed cells, (n, K), by Cholesky's elimination column by column.

    A missing cell has the covariance one with itself and zero with the others, and is at its mean,
    so that it adds nothing. Covariances are (K, d, d).
    """
    d = means.shape[1]
    there = x.is_missing().choose(0.0, 1.0)
    rows, cells = there.with_axis(1), there.with_axis(1).with_axis(3)
    left = covariances * (cells * there.with_axis(1).with_axis(1))
    left = left + (1.0 - cells) * np.eye(d)
    away = rows * (observed(x, x).with_axis(1) - means)
    found = []
    for j in range(d):
        pivot, first = left.part(3, 0).part(2, 0), away.part(2, 0)  # of what is left
        found += [pivot.log().sum(3).sum(2), (first.square() / pivot.sum(3)).sum(2)]
        if j + 1 < d:
            rest = np.arange(1, d - j)
            slopes = left.part(3, 0).part(2, rest) / pivot  # (n, K, rest, 1)
            away = away.part(2, rest) - (slopes * first.with_axis(3)).sum(3)
            left = left.part(2, rest).part(3, rest) - slopes * left.part(2, 0).part(3, rest)
    constant = there.sum(1, keepdims=True) * (-0.5 * LOG_2PI)
    return constant - 0.5 * total(*found)
