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
MOST_COMPARED = 10  # groups that are compared by the likelihood of all columns
NARROWEST = 1e-6  # variance of a group, as a fraction of the column's

STEPS = 8  # places of an interval that overlap with the same rows

Members = NDArray[np.bool_]
Interval = tuple[float, int, int, int]
"""What a group gains in its column, in nats per row, the column, and its first and last row."""


class _SortedColumns:
    """Moments of the sorted values of columns, standardised; constant columns are left out."""

    def __init__(self, x: Array, weight: Array) -> None:
        columns = np.ascontiguousarray(x.T)
        order = np.argsort(columns, axis=1)
        self.values = np.take_along_axis(columns, order, axis=1)
        mass = (weight / weight.sum())[order]
        z = self.values - (mass * self.values).sum(axis=1)[:, None]
        variance = (mass * np.square(z)).sum(axis=1)
        varying = variance > 0.0
        self.columns, self.values = np.flatnonzero(varying), self.values[varying]
        mass, z = mass[varying], z[varying] / np.sqrt(variance[varying])[:, None]
        self.sums = np.zeros((3, len(z), len(x) + 1))
        np.cumsum([mass, mass * z, mass * np.square(z)], axis=2, out=self.sums[:, :, 1:])

    def intervals(self, least: float) -> list[Interval]:
        """Intervals of different shares of the rows, and single values, that gain most."""
        found: list[Interval] = []
        n = self.values.shape[1]
        lengths = [length for length in (int(share * n) for share in SHARES) if length > 0]
        begins = [np.arange(0, n - length + 1, max(1, length // STEPS)) for length in lengths]
        if lengths:
            sizes = [len(begin) for begin in begins]
            begin = np.concatenate(begins)
            own = self.sums[:, :, begin + np.repeat(lengths, sizes)] - self.sums[:, :, begin]
            gains = np.where(own[0] >= least, _gains(own, self.sums[:, :, -1:]), -np.inf)
            parts = np.split(gains, np.cumsum(sizes)[:-1], axis=1)
            for length, begin, part in zip(lengths, begins, parts, strict=True):
                found += self._best_intervals(begin, length, part)
        for i, number in enumerate(self.columns.tolist()):
            found += self._frequent_values(i, number, max(least, LEAST_SHARE))
        return found

    def _best_intervals(self, begin: np.ndarray, length: int, gains: Array) -> list[Interval]:
        """Intervals of a column without common rows, those first that gain most."""
        found: list[Interval] = []
        row = np.arange(len(gains))
        for _ in range(INTERVALS):
            best = gains.argmax(axis=1)
            for i in np.flatnonzero(gains[row, best] > 0.0):
                first = int(begin[best[i]])
                gain = float(gains[i, best[i]])
                found.append((gain, int(self.columns[i]), first, first + length - 1))
            gains[np.abs(begin - begin[best][:, None]) < length] = -np.inf
        return found

    def _frequent_values(self, i: int, number: int, least: float) -> list[Interval]:
        """The values of a column that are held by a share of the rows and gain most."""
        values, sums = self.values[i], self.sums[:, i]
        begin = np.flatnonzero(np.append(True, values[1:] > values[:-1]))
        end = np.append(begin[1:], len(values))
        frequent = sums[0, end] - sums[0, begin] >= least
        if not frequent.any():
            return []
        begin, end = begin[frequent], end[frequent]
        gains = _gains(sums[:, end] - sums[:, begin], sums[:, -1:])
        best = np.argsort(-gains, kind="stable")[:MOST_COMPARED]
        return [
            (float(gains[j]), number, int(begin[j]), int(end[j] - 1))
            for j in best.tolist()
            if gains[j] > 0.0
        ]


def _gains(own: Array, total: Array) -> Array:
    """What two Gaussians gain over one, of rows with moments `own` and of the others."""
    gain = np.zeros(own.shape[1:])
    for share, first, second in (own, total - own):
        mass = np.maximum(share, 1e-12)
        variance = np.maximum(second / mass - np.square(first / mass), NARROWEST)
        gain += mass * (np.log(mass) - 0.5 * np.log(variance))
    return gain


def narrow_groups(x: Array, weight: Array, least: float, rng: np.random.Generator) -> Members:
    """Groups of rows whose values of a column are close or equal, one in each column.

    They gain most if their column is divided between two Gaussians, one of which has only them.
    `least` is the smallest share of rows in a group.
    """
    columns = np.arange(x.shape[1])
    if len(columns) > MOST_COLUMNS:
        columns = np.sort(rng.choice(columns, MOST_COLUMNS, replace=False))
    x = x[:, columns]
    ordered = _SortedColumns(x, weight)
    place = {int(column): i for i, column in enumerate(ordered.columns)}
    found = {}
    for gain, j, first, last in ordered.intervals(least):
        values = ordered.values[place[j]]
        found[j, float(values[first]), float(values[last])] = gain
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
