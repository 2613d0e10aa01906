"""Rows that hold one frequent value of a column, as a group of their own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixfold.core.rows import Array, Rows
from mixfold.models.assignment import weights_of
from mixfold.models.mixture_model import MixtureModel

LEAST_SHARE = 0.02  # of the rows that hold a frequent value
MOST_COLUMNS = 30  # in which frequent values are looked for
MOST_COMPARED = 24  # values that are compared by the likelihood

Groups = NDArray[np.bool_]
"""Which rows are in each group, one group in a column."""


def rows_of_values(x: Array, weight: Array, least: float, rng: np.random.Generator) -> Groups:
    """Which rows hold each frequent value of a column, those values first that gain most alone.

    `least` is the smallest weight of rows. The gain is that of two Gaussians of the column alone,
    one of which has only this value.
    """
    columns = np.arange(x.shape[1])
    if len(columns) > MOST_COLUMNS:
        columns = np.sort(rng.choice(columns, MOST_COLUMNS, replace=False))
    total = float(weight.sum())
    least = max(least, LEAST_SHARE * total)
    gains, groups = [], []
    for j in columns.tolist():
        column = x[:, j]
        values, labels = np.unique(column, return_inverse=True)
        mass = np.bincount(labels.reshape(-1), weight, len(values))
        for value in np.flatnonzero((mass >= least) & (mass <= total - least)).tolist():
            members = labels.reshape(-1) == value
            gains.append(_gain_alone(column, weight, members))
            groups.append(members)
    order = np.argsort(-np.asarray(gains), kind="stable")[:MOST_COMPARED]
    return np.stack([groups[i] for i in order], axis=1) if len(order) else np.empty((len(x), 0), bool)


def _gain_alone(column: Array, weight: Array, members: Groups) -> float:
    """What a value of a column gains as a group, but for a term that all values have alike."""
    own, others = weight[members].sum(), weight[~members]
    whole, rest = _variance(column, weight), _variance(column[~members], others)
    share = own / (own + others.sum())
    entropy = share * np.log(share) + (1.0 - share) * np.log1p(-share)
    narrow = 1e-3 * max(whole, 1e-300)
    before = 0.5 * np.log(max(whole, 1e-300))
    after = 0.5 * (share * np.log(narrow) + (1.0 - share) * np.log(max(rest, narrow)))
    return float(entropy + before - after)


def _variance(column: Array, weight: Array) -> float:
    weight = weight / weight.sum()
    return float(weight @ np.square(column - weight @ column))


def split_by_values(
    model: MixtureModel, rows: Rows, most: int, rng: np.random.Generator
) -> list[tuple[Groups, float]]:
    """So many of the groups of rows with one value that gain most, and the likelihood.

    It is that of two components, one of the group and one of the other rows, in nats.
    """
    x, weight = rows.x.astype(np.float64, copy=False), weights_of(rows)
    few = 2.0 * (model.d + 1) * float(weight[weight > 0.0].min(initial=np.inf))
    groups = rows_of_values(x, weight, few, rng)
    if not groups.shape[1]:
        return []
    joint = -np.inf
    for part in (groups, ~groups):
        mass = weight[:, None] * part
        params, _ = model.family.maximize(model.family.blocks_of(x, mass))
        share = np.log(mass.sum(axis=0) / weight.sum())
        joint = np.logaddexp(joint, model.family.log_density(params, x) + share)
    likelihood = weight @ joint
    best = np.argsort(-likelihood, kind="stable")[:most]
    return [(groups[:, i], float(likelihood[i])) for i in best if np.isfinite(likelihood[i])]
