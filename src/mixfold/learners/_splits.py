"""Splits of components in two, judged on the rows of a component alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mixfold.core.capabilities import CommonSpread
from mixfold.core.rows import Array, Rows
from mixfold.core.statistics import Blocks
from mixfold.learners._em_in_memory import learn
from mixfold.learners.em import EM
from mixfold.models.assignment import from_centers, from_groups, spread_centers
from mixfold.models.directions import interesting_directions
from mixfold.models.mixture_model import MixtureBackend, MixtureModel, MixtureParams
from mixfold.models.narrow_groups import split_by_values

FIRST_LOCAL = EM(tol=1e-3, max_iter=2, criterion="step")
LOCAL = EM(tol=1e-3, max_iter=5, criterion="step")
MOST_ROWS, PER_PARAMETER = 1000, 6  # rows of a component that a split is judged on, or more
LEAST_RESPONSIBILITY = 0.05
MOST_SPLITS = 32  # components whose splits are tried in a round
# changes of the responsibilities of a component up to which its split is taken as before, or the
# search for one begins there
SMALL_CHANGE, SOME_CHANGE = 0.05, 0.4
MOST_DIRECTIONS = 20  # columns up to which directions of splits are searched for
VALUES = 2  # frequent values of a column that are tried as components


class Split(NamedTuple):
    """A component, what two in its place gain in nats, and their blocks."""

    component: int
    gain: float
    blocks: Blocks


class KnownSplit(NamedTuple):
    """The best split of a component with these responsibilities, and its two parts."""

    responsibilities: Array
    split: Split
    parts: MixtureParams

    def change(self, responsibilities: Array) -> float:
        """How much the responsibilities have changed, as a fraction of all."""
        total = float(self.responsibilities.sum())
        return float(np.abs(responsibilities - self.responsibilities).sum()) / max(total, 1e-300)


class Splits:
    """The best splits of components of a sample; those that change little keep theirs."""

    def __init__(self, backend: MixtureBackend, sample: Rows) -> None:
        self.backend, self.model, self.sample = backend, backend.model, sample.on_host()
        self._two = backend.with_model(backend.model.of_components(2))
        self._most = max(MOST_ROWS, PER_PARAMETER * self.model.n_parameters() // self.model.k)
        self._known: dict[int, KnownSplit] = {}

    def best(
        self,
        params: MixtureParams,
        responsibilities: Array,
        log_density: Array,
        rng: np.random.Generator,
    ) -> list[Split]:
        """The best split of every component, or of the heaviest and some others; best first."""
        found = []
        for k in self._chosen(params, rng).tolist():
            own, known = responsibilities[:, k], self._known.get(k)
            change = np.inf if known is None else known.change(own)
            if change > SMALL_CHANGE:
                parts = None if known is None or change > SOME_CHANGE else known.parts
                known = self.split(k, params, own, log_density, parts, rng)
            if known is not None:
                self._known[k] = known
                found.append(known.split)
        return sorted(found, key=lambda split: -split.gain)

    def _chosen(self, params: MixtureParams, rng: np.random.Generator) -> np.ndarray:
        """The components that are split."""
        if self.model.k <= MOST_SPLITS:
            return np.arange(self.model.k)
        half = MOST_SPLITS // 2
        order = np.argsort(-params.weights, kind="stable")
        rest = rng.choice(order[half:], MOST_SPLITS - half, replace=False)
        return np.concatenate([order[:half], rest])

    def split(
        self,
        k: int,
        params: MixtureParams,
        own: Array,
        log_density: Array,
        parts: MixtureParams | None,
        rng: np.random.Generator,
    ) -> KnownSplit | None:
        """The best split of a component, or the one that begins with two given parts.

        None if the component has too few rows.
        """
        members, weight = members_of(own, self.sample, self._most, rng)
        if len(members) <= 2 * (self.model.d + 1) or not weight.sum() > 0.0:
            return None
        two, rows = self._two, self._rows(members, weight)
        parts = _first_parts(two, rows, rng) if parts is None else parts
        if parts is None:
            return None
        best, _ = learn(LOCAL, two, parts, rows)
        if len(members) == self._most:  # not judged on the rows it was fitted to
            members, weight = members_of(own, self.sample, self._most, rng)
            rows = self._rows(members, weight)
        with np.errstate(divide="ignore"):
            logs = np.log(own[members] / params.weights[k]) + log_density[members]
        gain = float(weight @ (np.asarray(two.posterior(best, rows, False)[0]) - logs))
        if not np.isfinite(gain):
            return None
        return KnownSplit(own.copy(), Split(k, gain, two.model.expected(best).blocks), best)

    def _rows(self, members: np.ndarray, weight: Array) -> Rows:
        return Rows(np.ascontiguousarray(self.sample.x[members]), weight)


def members_of(
    responsibility: Array, sample: Rows, most: int, rng: np.random.Generator
) -> tuple[np.ndarray, Array]:
    """Rows of a component and their weights, which sum to that of all of its rows."""
    mass = responsibility if sample.weight is None else responsibility * sample.weight
    members = np.flatnonzero(responsibility > LEAST_RESPONSIBILITY)
    if len(members) > most:
        members = np.sort(rng.choice(members, most, replace=False))
    own = mass[members]
    return members, own * (mass.sum() / own.sum()) if own.sum() > 0.0 else own


def _first_parts(two: MixtureBackend, rows: Rows, rng: np.random.Generator) -> MixtureParams | None:
    """The best of several divisions of rows after a few passes; None if there is none."""
    tried = [learn(FIRST_LOCAL, two, parts, rows) for parts in _two_parts(two.model, rows, rng)]
    return max(tried, key=lambda each: each[1])[0] if tried else None


def _two_parts(model: MixtureModel, rows: Rows, rng: np.random.Generator) -> list[MixtureParams]:
    """Two components for rows of one: across directions, and a narrow and a wide one."""
    if not isinstance(model.family, CommonSpread):
        centers = spread_centers(model.family.divergence, 2, rows, rng)
        return [from_centers(model, rows, centers)]
    weight = rows.weights() / rows.total_weight()
    x = rows.x.astype(np.float64)
    x = x - weight @ x
    values, vectors = np.linalg.eigh((weight[:, None] * x).T @ x)
    kept = values > 1e-8 * max(values[-1], 1e-300)
    if not kept.any():
        return []
    z = x @ (vectors[:, kept] / np.sqrt(values[kept]))[:, ::-1][:, :MOST_DIRECTIONS]
    axes = [z[:, 0]]
    if z.shape[1] > 1:
        axes.append(z @ interesting_directions(z, weight, 1, rng)[:, 0])
    labels = [_cut(axis, weight) for axis in axes]
    radius = np.square(z).sum(axis=1)
    labels.append(radius > np.quantile(radius, 0.6))
    labels += [group for group, _ in split_by_values(model, rows, VALUES, rng)]
    return [
        from_groups(model, rows, one.astype(np.intp)) for one in labels if 0 < one.sum() < len(one)
    ]


def _cut(axis: Array, weight: Array) -> np.ndarray:
    """Divide a column in two so that the variance within parts is least."""
    order = np.argsort(axis, kind="stable")
    mass, first = np.cumsum(weight[order]), np.cumsum((weight * axis)[order])
    rest = np.maximum(mass[-1] - mass, 1e-300)
    between = np.square(first) / np.maximum(mass, 1e-300) + np.square(first[-1] - first) / rest
    return np.asarray(axis > axis[order[int(between[:-1].argmax())]])
