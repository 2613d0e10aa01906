"""EM until it ends, on rows in memory."""

from __future__ import annotations

from mixfold.core.arrays import on_host
from mixfold.core.rows import Array, Rows
from mixfold.learners.em import EM
from mixfold.models.mixture_model import MixtureBackend, MixtureParams

Found = tuple[MixtureParams, float]
"""Parameters and what EM has maximised, per row."""


def learn(learner: EM, backend: MixtureBackend, params: MixtureParams, *parts: Rows) -> Found:
    """EM on rows in one or more parts: parameters and what it has maximised, per row."""
    state = learner.init(backend, params)
    while not learner.finished(state):
        for rows in parts:
            state, _ = learner.step(backend, state, rows)
        state, _ = learner.end_pass(backend, state)
    return learner.estimate(backend, state), state.before


def responsibilities_of(
    backend: MixtureBackend, params: MixtureParams, rows: Rows
) -> tuple[Array, Array]:
    """Responsibilities (n, K) of the components, and the log-density of rows."""
    log_density, found = backend.posterior(params, rows)
    assert found is not None
    return on_host(found)[:, : backend.model.k], on_host(log_density)
