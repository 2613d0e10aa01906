"""Rows that are close to each other in one column, as a group of their own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixfold.core.rows import Array, Rows
from mixfold.models.assignment import weights_of
from mixfold.models.mixture_model import MixtureModel

SHARES = (0.03, 0.06, 0.12, 0.25, 0.5)  # of the rows in an interval of values
LEAST_SHARE = 0.02  # of the rows that hold a frequent value
INTERVALS = 2  # of each share and column
MOST_COLUMNS = 30  # in which groups are looked for
MOST_COMPARED = 24  # groups that are compared by the likelihood of all columns
NARROWEST = 1e-6  # variance of a group, as a fraction of the column's

Members = NDArray[np.bool_]
Interval = tuple[float, float, float]
"""What a group gains in its column, in nats per row, and its smallest and largest value."""


class _Column:
    """Moments of the sorted values of a column, standardised."""

    def __init__(self, column: Array, weight: Array) -> None:
        order = np.argsort(column, kind="stable")
        self.values, mass = column[order], weight[order] / weight.sum()
        z = self.values - mass @ self.values
        variance = float(mass @ np.square(z))
        self.constant = not variance > 0.0
        z = z / np.sqrt(variance) if variance > 0.0 else z
        sums = np.cumsum([mass, mass * z, mass * np.square(z)], axis=1)
        self.sums = np.concatenate([np.zeros((3, 1)), sums], axis=1)

    def gains(self, begin: np.ndarray, end: np.ndarray) -> Array:
        """What two Gaussians gain over one, of the rows from `begin` to `end` and of the others."""
        own = self.sums[:, end] - self.sums[:, begin]
        gain = np.zeros(len(begin))
        for share, first, second in (own, self.sums[:, -1:] - own):
            mass = np.maximum(share, 1e-12)
            variance = np.maximum(second / mass - np.square(first / mass), NARROWEST)
            gain += mass * (np.log(mass) - 0.5 * np.log(variance))
        return gain

    def intervals(self, least: float) -> list[Interval]:
        """Intervals of different shares of the rows, and single values, that gain most."""
        if self.constant:
            return []
        total, n, found = self.sums[0], len(self.values), []
        for share in SHARES:
            end = np.searchsorted(total, total[:-1] + share - 1e-9)
            begin = np.flatnonzero((end <= n) & (share >= least))
            found += self._best(begin, end[begin], INTERVALS)
        begin = np.flatnonzero(np.append(True, self.values[1:] > self.values[:-1]))
        end = np.append(begin[1:], n)
        frequent = total[end] - total[begin] >= max(least, LEAST_SHARE)
        return found + self._best(begin[frequent], end[frequent], MOST_COMPARED)

    def _best(self, begin: np.ndarray, end: np.ndarray, most: int) -> list[Interval]:
        """Intervals without common rows, those first that gain most."""
        gains = self.gains(begin, end)
        found: list[Interval] = []
        while len(found) < most and len(gains) and gains.max() > 0.0:
            i = int(gains.argmax())
            found.append((float(gains[i]), self.values[begin[i]], self.values[end[i] - 1]))
            apart = (begin >= end[i]) | (end <= begin[i])
            gains = np.where(apart, gains, -np.inf)
        return found


def narrow_groups(x: Array, weight: Array, least: float, rng: np.random.Generator) -> Members:
    """Groups of rows whose values of a column are close or equal, one in each column.

    They gain most if their column is divided between two Gaussians, one of which has only them.
    `least` is the smallest share of rows in a group.
    """
    columns = np.arange(x.shape[1])
    if len(columns) > MOST_COLUMNS:
        columns = np.sort(rng.choice(columns, MOST_COLUMNS, replace=False))
    found = {
        (j, low, high): gain
        for j in columns.tolist()
        for gain, low, high in _Column(x[:, j], weight).intervals(least)
    }
    best = sorted(found, key=lambda each: -found[each])[:MOST_COMPARED]
    groups = [(x[:, j] >= low) & (x[:, j] <= high) for j, low, high in best]
    groups = [group for group in groups if group.sum() < len(x)]
    return np.stack(groups, axis=1) if groups else np.empty((len(x), 0), bool)


def split_by_values(
    model: MixtureModel, rows: Rows, most: int, rng: np.random.Generator
) -> list[tuple[Members, float]]:
    """So many groups of rows with close values of a column that gain most, and the likelihood.

    It is that of two components, one of the group and one of the other rows, in nats.
    """
    x, weight = rows.x.astype(np.float64, copy=False), weights_of(rows)
    few = 2.0 * (model.d + 1) * float(weight[weight > 0.0].min()) / float(weight.sum())
    groups = narrow_groups(x, weight, few, rng)
    if not groups.shape[1]:
        return []
    parts = []
    for part in (groups, ~groups):
        mass = weight[:, None] * part
        params, _ = model.family.maximize(model.family.blocks_of(x, mass))
        share = np.log(mass.sum(axis=0) / weight.sum())
        parts.append(model.family.log_density(params, x) + share)
    likelihood = weight @ np.logaddexp(*parts)
    best = np.argsort(-likelihood, kind="stable")[:most]
    return [(groups[:, i], float(likelihood[i])) for i in best if np.isfinite(likelihood[i])]
