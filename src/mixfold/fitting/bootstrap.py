"""Bootstrap replicates of a fitted mixture, learned together in the same passes over the data.

References
----------
Efron and Tibshirani (1993), An introduction to the bootstrap.
Chamandy et al. (2012), Estimating uncertainty for massive data streams: Poisson weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import poisson

from mixfold.core.noise import uniforms
from mixfold.core.rows import Array, Rows
from mixfold.core.source import block_length
from mixfold.fitting.component_order import reorder
from mixfold.learners.em import EM
from mixfold.models.mixture_model import MixtureBackend, MixtureModel, MixtureParams

MOST_COPIES = 20  # P(more) is 5e-20
TOL = 1e-3  # nats left to gain: estimates are within 0.05 standard errors of the maximum
LEARNER = EM(tol=TOL, accelerate=True)

Blocks = Callable[[], Iterable[Rows]]


def poisson_weights(seed: int, first: int, n: int) -> Array:
    """Poisson(1) weights of rows number first .. first + n - 1, whatever blocks they come in."""
    reached = poisson.cdf(np.arange(MOST_COPIES), 1.0)
    return np.searchsorted(reached, uniforms(seed, first, n)[:, 0], side="right").astype(float)


def aligned(model: MixtureModel, params: MixtureParams, like: MixtureParams) -> MixtureParams:
    """The components in the order in which they are closest to those of `like`."""
    distances = model.family.symmetric_kl(like.components, params.components)
    return reorder(params, linear_sum_assignment(distances)[1])


def weighted_replicates(
    backend: MixtureBackend, params: MixtureParams, blocks: Blocks, n_replicates: int, seed: int
) -> list[MixtureParams]:
    """Parameters learned by EM, from `params` on, from rows with Poisson(1) weights.

    `blocks` reads the rows once more. All replicates that have not converged take part in a pass.
    """
    seeds = [int(one) for one in np.random.SeedSequence(seed).generate_state(n_replicates)]
    states: list[Any] = [LEARNER.init(backend, params) for _ in seeds]
    while active := [b for b, state in enumerate(states) if not LEARNER.finished(state)]:
        first = 0
        for rows in blocks():
            for b in active:
                weight = rows.weights() * poisson_weights(seeds[b], first, len(rows))
                states[b] = LEARNER.step(backend, states[b], Rows(rows.x, weight))[0]
            first += len(rows)
        for b in active:
            states[b] = LEARNER.end_pass(backend, states[b])[0]
    found = (LEARNER.estimate(backend, state) for state in states)
    return [aligned(backend.model, one, params) for one in found]


def parametric_replicates(
    backend: MixtureBackend, params: MixtureParams, n: int, n_replicates: int, seed: int
) -> list[MixtureParams]:
    """Parameters learned by EM, from `params` on, from n rows that are drawn from the mixture."""
    model, found = backend.model, []
    for one in np.random.SeedSequence(seed).spawn(n_replicates):
        state = LEARNER.init(backend, params)
        while not LEARNER.finished(state):
            for rows in _drawn(model, params, n, one):
                state = LEARNER.step(backend, state, rows)[0]
            state = LEARNER.end_pass(backend, state)[0]
        found.append(aligned(model, LEARNER.estimate(backend, state), params))
    return found


def _drawn(
    model: MixtureModel, params: MixtureParams, n: int, seed: np.random.SeedSequence
) -> Iterator[Rows]:
    """Rows of the mixture, which are drawn again in every pass and so need no memory."""
    rng, length = np.random.default_rng(seed), block_length(model.d)
    for first in range(0, n, length):
        yield Rows(model.sample(params, min(length, n - first), rng)[0])
