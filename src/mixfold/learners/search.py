"""The search for good initial parameters on a sample of rows in memory."""

from __future__ import annotations

import numpy as np

from mixfold.core.initializer import Initializer
from mixfold.core.ranking import ranked
from mixfold.core.rows import Rows
from mixfold.core.value import replace
from mixfold.learners.em import EM
from mixfold.models.mixture_model import MixtureBackend, MixtureParams, count_degenerate

SHORT = EM(tol=1e-4, max_iter=8, accelerate=True, criterion="step")
LONG = EM(tol=1e-5, max_iter=60, accelerate=True, criterion="step")
FINALISTS = 3


def search(
    backend: MixtureBackend,
    start: Initializer,
    sample: Rows,
    seed: list[int],
    candidates: int,
    prior_strength: float = 0.0,
) -> MixtureParams:
    """The best of several candidates on the sample; the same for the same seed and sample.

    All are fitted for a few passes, and the best of them until convergence, with a prior of the
    given strength; they are compared by what is maximised.
    """
    drawn = [draw(backend, start, sample, [*seed, i]) for i in range(candidates)]
    if not sample.total_weight() > 0.0:
        return drawn[0]
    short, long = (replace(em, prior_strength=prior_strength) for em in (SHORT, LONG))
    tried = [_learned(short, backend, params, sample) for params in drawn]
    chosen = sorted(_best_first(backend, tried)[:FINALISTS])
    ended = [_learned(long, backend, tried[i][0], sample) for i in chosen]
    best: MixtureParams = ended[_best_first(backend, ended)[0]][0]
    return best


def draw(
    backend: MixtureBackend, start: Initializer, sample: Rows, seed: list[int]
) -> MixtureParams:
    """One draw of initial parameters."""
    params: MixtureParams = start.draw(backend.model, sample.on_host(), np.random.default_rng(seed))
    return params


def _best_first(backend: MixtureBackend, found: list[tuple[MixtureParams, float]]) -> list[int]:
    """Indices of candidates by score, those with the fewest degenerate components first.

    The likelihood of a component that shrinks onto a few rows is unbounded, so it is not
    comparable.
    """
    order = ranked([score for _, score in found])
    return sorted(order, key=lambda i: count_degenerate(backend.model, found[i][0]))


def _learned(
    learner: EM, backend: MixtureBackend, params: MixtureParams, sample: Rows
) -> tuple[MixtureParams, float]:
    """EM on the sample: parameters and what it has maximised, per row."""
    state = learner.init(backend, params)
    while not learner.finished(state):
        state, _ = learner.step(backend, state, sample)
        state, _ = learner.end_pass(backend, state)
    return learner.estimate(backend, state), state.before
