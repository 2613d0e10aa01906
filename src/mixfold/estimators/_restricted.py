"""The deviance of a linear mixed model with one grouping factor, over all of its groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mixfold.core.rows import Array
from mixfold.core.source import Source
from mixfold.models.gaussian_effects import raise_to_floor
from mixfold.models.linear_mixed import (
    LEAST_SHARE,
    LEAST_VARIANCE,
    LinearMixed,
    LinearMixedParams,
)
from mixfold.models.profiled_deviance import (
    Moments,
    ProfiledDeviance,
    Variances,
    subject_moments,
)

TILE = 1024


class GroupSizes(NamedTuple):
    """The number of observations, by weight, and in the smallest and the largest group."""

    observations: float
    smallest: int
    largest: int


def group_sizes(subjects: Source) -> GroupSizes:
    """Count the observations of all groups."""
    counts, weights = [], []
    for rows in subjects.blocks():
        counts.append(rows.x[:, -1].copy())
        weights.append(np.array(rows.weights()))
    count = np.concatenate(counts)
    total = float((np.concatenate(weights) * count).sum())
    return GroupSizes(total, int(count.min()), int(count.max()))


def one_factor_deviance(
    model: LinearMixed, subjects: Source, observations: float, restricted: bool
) -> ProfiledDeviance:
    """The deviance as a function of variances; each evaluation is a pass over the groups."""

    def moments(roots: list[Array]) -> Moments:
        total, gram = 0.0, np.zeros((model.p + 1, model.p + 1))
        for x, weight in _tiles(subjects):
            found = subject_moments(x, weight, model.p, roots[0])
            total, gram = total + found.log_determinant, gram + found.gram
        return Moments(total, gram)

    known = (
        None
        if model.omega is None
        else [np.asarray(np.linalg.cholesky(model.omega), dtype=np.float64)]
    )
    return ProfiledDeviance(
        moments,
        observations,
        [model.q],
        restricted,
        model.covariance,
        known,
        model.noise_variance,
    )


def _tiles(subjects: Source) -> Iterator[tuple[Array, Array]]:
    """Groups and their weights, TILE groups at a time, so that blocks do not show in sums."""
    waiting = np.zeros((0, subjects.d + 1))
    for rows in subjects.blocks():
        table = np.vstack([waiting, np.column_stack([rows.x, rows.weights()])])
        whole = len(table) - len(table) % TILE
        for start in range(0, whole, TILE):
            tile = table[start : start + TILE]
            yield tile[:, :-1], tile[:, -1]
        waiting = table[whole:]
    if len(waiting):
        yield waiting[:, :-1], waiting[:, -1]


def coordinates_of(deviance: ProfiledDeviance, params: LinearMixedParams) -> Array:
    """The variances of parameters as coordinates of the deviance."""
    root = np.asarray(np.linalg.cholesky(params.omega))
    return deviance.coordinates(Variances([root], params.noise_variance))


def minimizer(
    model: LinearMixed, deviance: ProfiledDeviance, start: LinearMixedParams
) -> tuple[LinearMixedParams, bool]:
    """Parameters of the smallest deviance, and whether they have been reached."""
    found, converged = deviance.minimize(coordinates_of(deviance, start))
    (root,), noise = deviance.variances(found)
    omega = model.omega
    if omega is None:
        omega = raise_to_floor(root @ root.T, model.covariance, LEAST_VARIANCE, LEAST_SHARE)[0]
    noise = max(noise, LEAST_VARIANCE) if model.noise_variance is None else noise
    beta = deviance.profile(found).beta
    return replace(start, beta=beta, omega=omega, noise_variance=float(noise)), converged
