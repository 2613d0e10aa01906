"""Candidates for initial parameters: how they are drawn from rows in memory, and ranked."""

from __future__ import annotations

import numpy as np

from mixfold.core.arrays import on_host
from mixfold.core.initializer import Initializer
from mixfold.core.missing_cells import filled
from mixfold.core.ranking import ranked
from mixfold.core.rows import Rows
from mixfold.core.value import replace
from mixfold.learners._em_in_memory import Found, learn
from mixfold.learners.em import EM
from mixfold.models.assignment import row_order
from mixfold.models.mixture_model import (
    MixtureBackend,
    MixtureParams,
    count_spurious,
)

FIRST = EM(tol=0.0, max_iter=1)
MOST_DISTINCT = 2**18  # numbers in a sample that is sorted


def some_rows(rows: Rows, n: int, seed: list[int]) -> Rows:
    """At most n of the rows with weight, drawn at random, in their order."""
    if len(rows) <= n:
        return rows
    if rows.weight is not None:
        rows = rows.where(rows.weight > 0.0)
    chosen = np.random.default_rng(seed).permutation(len(rows))[:n]
    chosen.sort()
    return Rows(rows.x[chosen], None if rows.weight is None else rows.weight[chosen])


def distinct(rows: Rows) -> Rows:
    """Rows in order with the weights of equal ones added, so that a weight of 2 is a row twice.

    Large samples are returned as they are.
    """
    if rows.x.size > MOST_DISTINCT:
        return rows
    order = row_order(rows.x)
    x, weight = rows.x[order], rows.weights()[order]
    first = np.append(True, (x[1:] != x[:-1]).any(axis=1))
    total = np.bincount(np.cumsum(first) - 1, weight).astype(np.float64)
    return Rows(x[first], total).where(total > 0.0)


def draw(
    backend: MixtureBackend, start: Initializer, sample: Rows, seed: list[int]
) -> MixtureParams:
    """One draw of initial parameters.

    Missing cells are filled at random for it, and a step of EM then counts the observed ones alone.
    """
    model, rows, rng = backend.model, sample.on_host(), np.random.default_rng(seed)
    params: MixtureParams
    if not model.family.accepts_missing:
        params = model.initial(start.draw(model, rows, rng))
        return params
    complete = replace(model, family=model.family.for_complete_rows())
    params = model.initial(start.draw(complete, Rows(filled(rows.x, rng), rows.weight), rng))
    if not start.random or not rows.total_weight() > 0.0:
        return params
    return learn(FIRST, backend, params, sample)[0]


def best_first(backend: MixtureBackend, found: list[Found], sample: Rows) -> list[int]:
    """Indices of candidates by score, those with the fewest spurious components first.

    The likelihood of a component that shrinks onto a few rows is unbounded, so it is not
    comparable.
    """
    order = ranked([score for _, score in found])
    return sorted(order, key=lambda i: count_spurious(backend.model, found[i][0], [sample]))


def order_on(backend: MixtureBackend, drawn: list[MixtureParams], sample: Rows) -> list[int]:
    """Indices of parameters by likelihood, those with the fewest spurious components first."""
    weight = sample.weights()
    scores = [weight @ on_host(backend.posterior(params, sample, False)[0]) for params in drawn]
    return best_first(backend, list(zip(drawn, map(float, scores), strict=True)), sample)
