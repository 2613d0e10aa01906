"""Assignment of a row to the component that is most likely after the M-step it causes."""

from __future__ import annotations

import numpy as np

from mixfold.core.backend import Backend
from mixfold.core.params import Params
from mixfold.core.rows import Rows
from mixfold.core.statistics import Additive


def look_ahead(
    backend: Backend, params: Params, statistics: Additive, row: Rows, gamma: float
) -> Additive:
    """Statistics of one row, given to argmax_k w_k p(x | k) after the M-step that k would cause."""
    model = backend.model
    trials: list[Additive] = [_given_to(backend, params, row, k) for k in range(model.k)]
    if not trials[0].count > 0:
        return trials[0]
    after = [model.maximize(statistics.mix(trial.normalized(), gamma))[0] for trial in trials]
    values = [_log_joint(backend, params, row, k) for k, params in enumerate(after)]
    return trials[int(np.argmax(values))]


def _log_joint(backend: Backend, params: Params, row: Rows, k: int) -> float:
    log_density, responsibilities = backend.posterior(params, row)
    assert responsibilities is not None
    with np.errstate(divide="ignore"):
        return float(log_density[0] + np.log(responsibilities[0, k]))


def _given_to(backend: Backend, params: Params, row: Rows, k: int) -> Additive:
    responsibilities = np.zeros((1, backend.model.k))
    responsibilities[0, k] = 1.0
    sums = backend.moments(params, row, responsibilities, np.zeros(backend.model.n_sums))
    sums[0] = row.weights() @ backend.posterior(params, row, False)[0]
    found: Additive = backend.model.statistics(params, sums)
    return found
