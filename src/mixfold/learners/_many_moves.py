"""Many moves of components at once, judged on the rows of the components that they change."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.sparse import csc_matrix, csr_matrix, vstack

from mixfold.core.rows import Array, Rows, rows_at_a_time
from mixfold.learners._em_in_memory import responsibilities_of
from mixfold.learners._moves import Merge, maximized, union_loss
from mixfold.learners._splits import Split, Splits
from mixfold.models.mixture_model import MixtureBackend, MixtureParams

LEAST = 1e-3  # responsibilities that count
TOGETHER = 2**22  # responsibilities in memory at a time
NEIGHBOURS = 2  # components with which the union of a component is tried


class Memberships(NamedTuple):
    """The responsibilities that count, and the log density of rows."""

    responsibilities: csc_matrix
    log_density: Array

    def of(self, component: int) -> Array:
        """The responsibilities of one component for all rows."""
        own, found = self.responsibilities, np.zeros(self.responsibilities.shape[0])
        part = slice(*own.indptr[component : component + 2])
        found[own.indices[part]] = own.data[part]
        return found

    def close_pairs(self) -> list[tuple[int, int]]:
        """Pairs of components that share most rows of one of them, those first that share most."""
        own = self.responsibilities
        shared = csr_matrix(own.T @ own)
        total = np.maximum(np.asarray(own.sum(axis=0))[0], 1e-300)
        pairs: dict[tuple[int, int], float] = {}
        for i, (first, last) in enumerate(pairwise(shared.indptr)):
            others, part = shared.indices[first:last], shared.data[first:last] / total[i]
            part = np.where(others == i, -1.0, part)
            for place in np.lexsort((others, -part))[:NEIGHBOURS].tolist():
                if part[place] > 0.0:
                    j = int(others[place])
                    pair = min(i, j), max(i, j)
                    pairs[pair] = max(pairs.get(pair, 0.0), float(part[place]))
        return sorted(pairs, key=lambda pair: (-pairs[pair], pair))


def memberships(backend: MixtureBackend, params: MixtureParams, rows: Rows) -> Memberships:
    """The responsibilities that count, some rows at a time.

    The E-step over all components for every row is made here.
    """
    parts, logs = [], []
    for some in rows_at_a_time(rows, max(1, TOGETHER // backend.model.k)):
        found, log_density = responsibilities_of(backend, params, some)
        places = np.nonzero(found > LEAST)
        parts.append(csr_matrix((found[places], places), found.shape))
        logs.append(log_density)
    return Memberships(csc_matrix(vstack(parts)), np.concatenate(logs))


def params_after_moves(
    backend: MixtureBackend,
    params: MixtureParams,
    rows: Rows,
    number: int,
    least: float,
    rng: np.random.Generator,
) -> tuple[MixtureParams, int]:
    """Parameters after at most so many moves, and how many there were.

    Of components that are drawn at random, those are split that gain most, and others are merged
    that lose least, as long as more than `least` nats are expected to be gained by both.
    """
    model = backend.model
    known = memberships(backend, params, rows)
    splits = _splits(backend, params, rows, known, number, least, rng)
    merges = _merges(backend, params, rows, known, splits, rng)
    moves = [
        (split, merge)
        for split, merge in zip(splits, merges, strict=False)
        if split.gain - merge.loss > least
    ]
    return maximized(model, model.expected(params), moves), len(moves)


def _splits(
    backend: MixtureBackend,
    params: MixtureParams,
    rows: Rows,
    known: Memberships,
    number: int,
    least: float,
    rng: np.random.Generator,
) -> list[Split]:
    """The best splits of some components that gain enough, those first that gain most."""
    chosen = np.sort(rng.choice(backend.model.k, number, replace=False, p=params.weights))
    splits = Splits(backend, rows)
    found = [
        splits.split(k, params, known.of(k), known.log_density, None, rng) for k in chosen.tolist()
    ]
    gained = [each.split for each in found if each is not None and each.split.gain > least]
    return sorted(gained, key=lambda split: -split.gain)


def _merges(
    backend: MixtureBackend,
    params: MixtureParams,
    rows: Rows,
    known: Memberships,
    splits: list[Split],
    rng: np.random.Generator,
) -> list[Merge]:
    """Unions of components that are not split, each in one of them, those first that lose least."""
    model, blocks = backend.model, backend.model.expected(params).blocks
    apart = {split.component for split in splits}
    pairs = [pair for pair in known.close_pairs() if not apart & {*pair}]
    found = []
    for i, j in pairs[: 2 * len(splits)]:
        log_weight = float(np.log(params.weights[i] + params.weights[j]))
        both = known.of(i) + known.of(j)
        loss = union_loss(model, blocks, (i, j), log_weight, rows, both, known.log_density, rng)
        if np.isfinite(loss):
            found.append(Merge((i, j), max(loss, 0.0)))
    merges, used = [], set[int]()
    for merge in sorted(found, key=lambda each: each.loss):
        if not used & {*merge.pair}:
            merges.append(merge)
            used |= {*merge.pair}
    return merges
