"""Means, deviations and levels of the columns within components, from responsibilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mixfold.core.rows import Array
from mixfold.report._columns import Column

TINY = 1e-12


@dataclass(frozen=True)
class Profiles:
    """What the rows of each component look like, and those of all other components together.

    `means` and `deviations` (K, d) are of the observed cells, weighted by responsibilities;
    `other_means` and `other_deviations` are those of the rest of the rows, and `whole_means` and
    `whole_deviations` (d,) of all rows. `levels[j]` (K, L) are proportions of the levels of a
    column, and `other_levels[j]` those in the rest. Angles have mean directions.
    """

    means: Array
    deviations: Array
    other_means: Array
    other_deviations: Array
    whole_means: Array
    whole_deviations: Array
    levels: dict[int, Array]
    other_levels: dict[int, Array]
    effects: Array  # (K, d): how far a component is from the rest, in standard deviations


class ComponentMoments:
    """Sums for `Profiles` over blocks of rows; only numbers and columns of levels matter."""

    def __init__(self, columns: Sequence[Column], k: int) -> None:
        d = len(columns)
        self.columns = columns
        self.angles = [j for j, column in enumerate(columns) if column.kind == "angle"]
        self.coded = {
            j: len(column.levels) for j, column in enumerate(columns) if column.kind == "level"
        }
        self.shift: Array | None = None
        self.weight, self.first, self.second = (np.zeros((k, d)) for _ in range(3))
        self.waves = np.zeros((k, len(self.angles)), dtype=np.complex128)
        self.counts = {j: np.zeros((k, n)) for j, n in self.coded.items() if n > 2}

    def update(self, x: Array, responsibilities: Array) -> None:
        """Add rows (n, d) with responsibilities (n, K)."""
        seen = ~np.isnan(x)
        if self.shift is None:
            number = np.maximum(seen.sum(axis=0), 1)
            self.shift = np.where(seen, x, 0.0).sum(axis=0) / number
        y = np.where(seen, x - self.shift, 0.0)
        r = responsibilities.T
        self.weight += r.sum(axis=1, keepdims=True) if seen.all() else r @ seen.astype(np.float64)
        self.first += r @ y
        self.second += r @ np.square(y)
        for i, j in enumerate(self.angles):
            own = seen[:, j]
            self.waves[:, i] += r[:, own] @ np.exp(1j * x[own, j])
        for j in self.counts:
            there = np.flatnonzero(seen[:, j])
            ones = np.zeros((len(there), self.coded[j]))
            ones[np.arange(len(there)), x[there, j].astype(np.intp)] = 1.0
            self.counts[j] += r[:, there] @ ones

    def found(self) -> Profiles:
        """The profiles."""
        assert self.shift is not None
        means, deviations = self._moments(self.weight, self.first, self.second)
        rest = [np.maximum(a.sum(axis=0) - a, 0.0) for a in (self.weight, self.second)]
        others = self._moments(rest[0], self.first.sum(axis=0) - self.first, rest[1])
        sums = [a.sum(axis=0, keepdims=True) for a in (self.weight, self.first, self.second)]
        whole = self._moments(*sums)
        effects = _standardized(means, others[0], deviations, others[1])
        for i, j in enumerate(self.angles):
            effects[:, j] = self._turn(i, j, means, deviations, *others)
            wave = self.waves[:, i].sum()
            whole[0][0, j], whole[1][0, j] = _direction(wave, self.weight[:, j].sum())
        levels, other_levels = {}, {}
        for j, n in self.coded.items():
            own, rest_of = self._shares(j, n, means, others[0])
            levels[j], other_levels[j] = own, rest_of
            arcs = 2.0 * (np.arcsin(np.sqrt(own)) - np.arcsin(np.sqrt(rest_of)))
            effects[:, j] = np.take_along_axis(arcs, np.abs(arcs).argmax(axis=1)[:, None], axis=1)[
                :, 0
            ]
        return Profiles(
            means, deviations, *others, whole[0][0], whole[1][0], levels, other_levels, effects
        )

    def _moments(self, weight: Array, first: Array, second: Array) -> tuple[Array, Array]:
        some = np.where(weight > TINY, weight, np.nan)
        mean = first / some
        variance = np.maximum(second / some - np.square(mean), 0.0)
        assert self.shift is not None
        return mean + self.shift, np.sqrt(variance)

    def _turn(
        self, i: int, j: int, means: Array, spread: Array, other: Array, other_spread: Array
    ) -> Array:
        """Replace the moments of angles by mean directions; the differences of these."""
        rest = self.waves[:, i].sum() - self.waves[:, i]
        weight = self.weight[:, j]
        means[:, j], spread[:, j] = _direction(self.waves[:, i], weight)
        other[:, j], other_spread[:, j] = _direction(rest, weight.sum() - weight)
        apart = np.angle(np.exp(1j * (means[:, j] - other[:, j])))
        size = np.sqrt((np.square(spread[:, j]) + np.square(other_spread[:, j])) / 2.0)
        return np.asarray(np.nan_to_num(apart / np.maximum(size, TINY)))

    def _shares(self, j: int, n: int, means: Array, others: Array) -> tuple[Array, Array]:
        """The proportions of levels in components, and in the rest."""
        if n > 2:
            table = self.counts[j]
            rest = np.maximum(table.sum(axis=0) - table, 0.0)
            return _normalized(table), _normalized(rest)
        pair = [np.clip(np.nan_to_num(part[:, j]), 0.0, 1.0) for part in (means, others)]
        own, rest = (np.stack([1.0 - p, p], axis=1)[:, :n] for p in pair)
        return own, rest


def _normalized(table: Array) -> Array:
    return np.asarray(table / np.maximum(table.sum(axis=1, keepdims=True), TINY))


def _standardized(mean: Array, other: Array, spread: Array, other_spread: Array) -> Array:
    """Differences of means in units of the standard deviation within the two parts."""
    size = np.sqrt((np.square(spread) + np.square(other_spread)) / 2.0)
    apart = mean - other
    with np.errstate(divide="ignore", invalid="ignore"):
        effect = np.where(np.abs(apart) <= TINY * np.abs(mean), 0.0, apart / size)
    return np.asarray(np.clip(np.nan_to_num(effect, posinf=99.0, neginf=-99.0), -99.0, 99.0))


def _direction(wave: np.ndarray, weight: Array) -> tuple[Array, Array]:
    """The mean direction and the circular standard deviation."""
    length = np.clip(np.abs(wave) / np.maximum(weight, TINY), TINY, 1.0)
    return np.angle(wave), np.sqrt(-2.0 * np.log(length))
