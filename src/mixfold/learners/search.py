"""The search for good initial parameters on a sample of rows in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mixfold.core.arrays import on_host
from mixfold.core.initializer import Initializer
from mixfold.core.ranking import ranked
from mixfold.core.rows import Rows
from mixfold.core.value import replace
from mixfold.learners._moves import Found, improve, learn
from mixfold.learners.em import EM
from mixfold.models.mixture_model import MixtureBackend, MixtureParams, count_spurious

SHORT = EM(tol=1e-4, max_iter=8, accelerate=True, criterion="step")
LONG = EM(tol=1e-5, max_iter=60, accelerate=True, criterion="step")
FINALISTS = 3
MOST_DISTINCT = 2**18  # numbers in a sample that is sorted


def search(
    backend: MixtureBackend,
    kinds: Sequence[Initializer],
    sample: Rows,
    seed: list[int],
    candidates: int,
    prior_strength: float = 0.0,
) -> MixtureParams:
    """The best of several candidates on the sample; the same for the same seed and sample.

    Kinds of initializers take turns. All candidates are fitted for a few passes, and the best of
    them until convergence, with a prior of the given strength; they are compared by what is
    maximised. Of several kinds the best is then improved by moves of components.
    """
    rows = sample.on_host()
    if len(kinds) > 1 and sample.total_weight() > 0.0:
        rows = _distinct(rows)
    turns = [kinds[i % len(kinds)] for i in range(candidates)]
    drawn = [draw(backend, kind, rows, [*seed, i]) for i, kind in enumerate(turns)]
    if not sample.total_weight() > 0.0:
        return drawn[0]
    short, long = (replace(em, prior_strength=prior_strength) for em in (SHORT, LONG))
    tried = [learn(short, backend, params, sample) for params in drawn]
    chosen = sorted(best_first(backend, tried, sample)[:FINALISTS])
    ended = [learn(long, backend, tried[i][0], sample) for i in chosen]
    best = ended[best_first(backend, ended, sample)[0]]
    if len(kinds) == 1:
        return best[0]
    after = improve(backend, best, rows, seed, prior_strength)
    return best[0] if after is best else learn(long, backend, after[0], sample)[0]


def _distinct(rows: Rows) -> Rows:
    """Rows in order with the weights of equal ones added, so that a weight of 2 is a row twice.

    Large samples are returned as they are.
    """
    if rows.x.size > MOST_DISTINCT:
        return rows
    order = np.lexsort(rows.x.T[::-1])
    x, weight = rows.x[order], rows.weights()[order]
    first = np.append(True, (x[1:] != x[:-1]).any(axis=1))
    total = np.bincount(np.cumsum(first) - 1, weight).astype(np.float64)
    return Rows(x[first], total).where(total > 0.0)


def draw(
    backend: MixtureBackend, start: Initializer, sample: Rows, seed: list[int]
) -> MixtureParams:
    """One draw of initial parameters."""
    params: MixtureParams = start.draw(backend.model, sample.on_host(), np.random.default_rng(seed))
    return params


def best_first(backend: MixtureBackend, found: list[Found], sample: Rows) -> list[int]:
    """Indices of candidates by score, those with the fewest spurious components first.

    The likelihood of a component that shrinks onto a few rows is unbounded, so it is not
    comparable.
    """
    order = ranked([score for _, score in found])
    return sorted(order, key=lambda i: count_spurious(backend.model, found[i][0], [sample]))


def best_on(backend: MixtureBackend, drawn: list[MixtureParams], sample: Rows) -> int:
    """Which parameters have the highest likelihood, and the fewest spurious components."""
    weight = sample.weights()
    scores = [weight @ on_host(backend.posterior(params, sample, False)[0]) for params in drawn]
    return best_first(backend, list(zip(drawn, map(float, scores), strict=True)), sample)[0]
