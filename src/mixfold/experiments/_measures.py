"""How good an estimate is: likelihood, agreement of labels, distance from the truth."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from mixfold.backends.threads import Threads
from mixfold.core.rows import Array, Rows
from mixfold.core.source import Source
from mixfold.experiments.templates import Template
from mixfold.models.mixture_model import MixtureParams

# the quadrature's grid: standard deviations beyond the outermost means, and points
REACH, POINTS = 9.0, 4001


def squared_error(template: Template, params: MixtureParams) -> float:
    """Sum of squared differences from the truth, components matched one to one by location.

    Every free parameter counts once: weights, locations and the lower triangles of covariances.
    """
    truth, truth_shape = template.coordinates(template.params.components)
    guess, guess_shape = template.coordinates(params.components)
    cost = np.square(truth[:, None] - guess[None]).sum(axis=2)
    i, j = linear_sum_assignment(cost)
    weights = template.params.weights[i] - params.weights[j]
    shapes = truth_shape[i] - guess_shape[j]
    return float(cost[i, j].sum() + np.square(weights).sum() + np.square(shapes).sum())


def divergence(backend: Threads, template: Template, params: MixtureParams) -> float:
    """Kullback-Leibler divergence of learned from true in one column, by quadrature."""
    means = template.locations(template.params)
    (block,) = template.model.expected(template.params).blocks
    widest = np.sqrt(block.scatter)
    reach = REACH * widest.max()
    grid = np.linspace(means.min() - reach, means.max() + reach, POINTS)
    rows = Rows(grid[:, None])
    log_p, log_q = (backend.posterior(p, rows, False)[0] for p in (template.params, params))
    # by rounding alone it could be negative
    return max(0.0, float(np.trapezoid(np.exp(log_p) * (log_p - log_q), grid)))


def evaluate(
    backend: Threads, params: MixtureParams, source: Source, labels: np.ndarray
) -> tuple[float, float]:
    """Log-likelihood per row of all rows, and the adjusted Rand index of their labels."""
    k, first, total = backend.model.k, 0, 0.0
    counts = np.zeros((int(labels.max()) + 1) * k, dtype=np.int64)
    for rows in source.blocks():
        log_density, responsibilities = backend.posterior(params, rows)
        assert responsibilities is not None
        truth = labels[first : first + len(rows)].astype(np.int64)
        counts += np.bincount(truth * k + responsibilities.argmax(axis=1), minlength=len(counts))
        total += float(log_density.sum())
        first += len(rows)
    return total / first, adjusted_rand(counts.reshape(-1, k))


def adjusted_rand(table: np.ndarray) -> float:
    """Hubert and Arabie's index from a table of counts: no need to hold both label vectors."""
    both = pairs(table).sum()
    rows, columns = pairs(table.sum(axis=1)).sum(), pairs(table.sum(axis=0)).sum()
    expected = rows * columns / pairs(table.sum())
    best = 0.5 * (rows + columns)
    return 1.0 if best == expected else float((both - expected) / (best - expected))


def pairs(counts: np.ndarray) -> Array:
    """Number of unordered pairs in groups of these sizes."""
    n = np.asarray(counts, dtype=np.float64)
    return np.asarray(n * (n - 1.0) / 2.0)
