"""How well mixtures of a family describe the values of one column, or of several.

Likelihoods of one column are compared against the same base measure: a normal distribution of
whole numbers is integrated from half below to half above each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mixfold.core.family import Family
from mixfold.core.rows import Array
from mixfold.families.gaussian import Gaussian, GaussianParams

LogDensity = Callable[[Any, Array], Array]

ROWS = 2000  # of the values that are used
COMPONENTS = (1, 3)  # since a column that is skewed or wide may be normal in each component
STEPS = 25
ROUNDED = 1.0 / 12.0  # variance of what rounding to whole numbers adds


def likelihood(family: Family, values: Array) -> float:
    """The mean log-likelihood of the better of few components, less half of BIC's penalty."""
    values = np.sort(values)[:: -(-len(values) // ROWS)]
    whole = bool((values == values.round()).all())
    return max(_likelihood(family, values, k, whole) for k in COMPONENTS)


def fitted_likelihood(
    family: Family, x: Array, responsibilities: Array, steps: int, log_density: LogDensity
) -> tuple[float, Array]:
    """The mean log-likelihood after steps of EM, less half of BIC's penalty, and responsibilities.

    EM begins with the components of the given responsibilities, (n, K).
    """
    n, k = responsibilities.shape
    params, _ = family.maximize(family.blocks_of(x, responsibilities))
    weights = responsibilities.mean(axis=0)
    logs, r = _responsibilities(log_density(params, x), weights)
    for _ in range(steps):
        weights = np.maximum(r.mean(axis=0), 1e-12)
        params, _ = family.maximize(family.to_blocks(params, family.sums(params, x, r)))
        logs, r = _responsibilities(log_density(params, x), weights / weights.sum())
    free = k - 1 + family.n_parameters(k, x.shape[1])
    return float(logs.mean() - 0.5 * free * np.log(n) / n), r


def _responsibilities(log_densities: Array, weights: Array) -> tuple[Array, Array]:
    """log p(x) of every row, and its responsibilities."""
    joint = log_densities + np.log(weights)
    largest = joint.max(axis=1, keepdims=True)
    r = np.exp(joint - largest)
    total = r.sum(axis=1, keepdims=True)
    return (largest + np.log(total))[:, 0], r / total


def in_order(place: Array, k: int) -> Array:
    """Responsibilities of K overlapping parts of rows, by their places from 0 to 1, (n, K)."""
    centre = (np.arange(k) + 0.5) / k
    r = np.exp(-8.0 * np.square(k * (place[:, None] - centre) / 2.0))
    return np.asarray(r / r.sum(axis=1, keepdims=True))


def _likelihood(family: Family, values: Array, k: int, whole: bool) -> float:
    """The likelihood of components that begin with overlapping parts of the sorted values."""
    r = in_order((np.arange(len(values)) + 0.5) / len(values), k)

    def log_density(params: Any, x: Array) -> Array:
        integrated = whole and isinstance(family, Gaussian)
        return _integrated(params, x) if integrated else family.log_density(params, x)

    return fitted_likelihood(family, values[:, None], r, STEPS, log_density)[0]


def _integrated(params: GaussianParams, x: Array) -> Array:
    """log P(x - 1/2 < X < x + 1/2) of normal distributions, (n, K)."""
    from scipy.special import log_ndtr

    deviations = np.sqrt(np.square(params.scale[:, 0]) + ROUNDED)
    upper, lower = ((x + half - params.means[:, 0]) / deviations for half in (0.5, -0.5))
    # of the two tails the smaller one, in which differences lose no digits
    flipped = lower > 0.0
    high, low = np.where(flipped, -lower, upper), np.where(flipped, -upper, lower)
    above = log_ndtr(high)
    return np.asarray(above + np.log1p(-np.exp(np.minimum(log_ndtr(low) - above, -1e-16))))
