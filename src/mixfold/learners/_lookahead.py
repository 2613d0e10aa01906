"""Giving a row to the component that will explain it best once it has it."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.core.backend import Backend
from mixfold.core.rows import Rows


def look_ahead(backend: Backend, params: Any, statistics: Any, row: Rows, gamma: float) -> Any:
    """Statistics of one row, given to argmax_k w_k p(x | k) after the M-step that k would cause."""
    model = backend.model
    trials = [_given_to(backend, params, row, k) for k in range(model.k)]
    if not trials[0].count > 0:
        return trials[0]
    after = [model.maximize(statistics.mix(trial.normalized(), gamma))[0] for trial in trials]
    values = [_log_joint(backend, params, row, k) for k, params in enumerate(after)]
    return trials[int(np.argmax(values))]


def _log_joint(backend: Backend, params: Any, row: Rows, k: int) -> float:
    log_density, shares = backend.posterior(params, row)
    assert shares is not None
    with np.errstate(divide="ignore"):
        return float(log_density[0] + np.log(shares[0, k]))


def _given_to(backend: Backend, params: Any, row: Rows, k: int) -> Any:
    latent = np.zeros((1, backend.model.k))
    latent[0, k] = 1.0
    sums = backend.moments(params, row, latent, np.zeros(backend.model.n_sums))
    sums[0] = row.weights() @ backend.posterior(params, row, False)[0]
    return backend.model.statistics(params, sums)
