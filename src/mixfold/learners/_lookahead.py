"""Giving a row to the component that will explain it best once it has it."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.core.problem import Problem
from mixfold.core.rows import Rows


def look_ahead(problem: Problem, params: Any, statistics: Any, row: Rows, gamma: float) -> Any:
    """Statistics of one row, given to argmax_k w_k p(x | k) after the M-step that k would cause."""
    model = problem.model
    trials = [_given_to(problem, params, row, k) for k in range(model.k)]
    if not trials[0].count > 0:
        return trials[0]
    after = [model.maximize(statistics.mix(trial.normalized(), gamma))[0] for trial in trials]
    values = [_log_joint(problem, params, row, k) for k, params in enumerate(after)]
    return trials[int(np.argmax(values))]


def _log_joint(problem: Problem, params: Any, row: Rows, k: int) -> float:
    log_density, shares = problem.posterior(params, row)
    assert shares is not None
    with np.errstate(divide="ignore"):
        return float(log_density[0] + np.log(shares[0, k]))


def _given_to(problem: Problem, params: Any, row: Rows, k: int) -> Any:
    latent = np.zeros((1, problem.model.k))
    latent[0, k] = 1.0
    sums = problem.moments(params, row, latent, np.zeros(problem.model.n_sums))
    sums[0] = row.weights() @ problem.posterior(params, row, False)[0]
    return problem.model.statistics(params, sums)
