"""The observed information of fixed effects when variances are estimated too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mixfold.backends.threads import Threads
from mixfold.core.rows import Array
from mixfold.core.source import Source
from mixfold.core.statistics import lower_triangle, pack, unpack
from mixfold.models.linear_mixed import LinearMixedParams

STEP = 1e-4


def observed_information(
    backend: Threads, params: LinearMixedParams, subjects: Source, expected: Array
) -> Array:
    """I_bb - I_bv I_vv^-1 I_vb, from the observed information of effects b and variances v.

    Its inverse is the block of fixed effects of the inverse of all. `expected` is I_bb. Second
    derivatives are differences of scores, two passes per variance. Where the variances lie on the
    border of their domain they have no curvature, and I_bb is returned.
    """
    p, free = backend.model.p, backend.model.free_variances()
    steps = STEP * _lengths(params)
    columns = []
    for k in np.flatnonzero(free).tolist():
        moved = [_moved(params, k, sign * steps[k]) for sign in (1.0, -1.0)]
        if any(np.linalg.eigvalsh(m.omega).min() <= 0 or m.noise_variance <= 0 for m in moved):
            return expected
        up, down = (_score(backend, m, subjects) for m in moved)
        columns.append((down - up) / (2.0 * steps[k]))
    if not columns:
        return expected
    curvature = np.stack(columns, axis=1)
    mixed, variances = curvature[:p], curvature[p:][free]
    variances = 0.5 * (variances + variances.T)
    if np.linalg.eigvalsh(variances).min() <= 0:
        return expected
    found = expected - mixed @ np.linalg.solve(variances, mixed.T)
    return found if np.linalg.eigvalsh(found).min() > 0 else expected


def _lengths(params: LinearMixedParams) -> Array:
    """The natural length of each of (packed Omega, sigma^2)."""
    deviations = np.sqrt(np.diag(params.omega))
    i, j = lower_triangle(len(deviations))
    return np.append(deviations[i] * deviations[j], params.noise_variance)


def _moved(params: LinearMixedParams, k: int, step: float) -> LinearMixedParams:
    variances = np.append(pack(params.omega), params.noise_variance)
    variances[k] += step
    omega = unpack(variances[:-1], len(params.omega))
    return replace(params, omega=omega, noise_variance=float(variances[-1]))


def _score(backend: Threads, params: LinearMixedParams, subjects: Source) -> Array:
    sums = np.zeros(backend.model.n_sums)
    for rows in subjects.blocks():
        sums = backend.fold(params, rows, sums)
    score: Array = backend.model.score(params, backend.model.statistics(params, sums))
    return score
