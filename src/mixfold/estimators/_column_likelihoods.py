"""How well mixtures of a family describe the values of one column.

Likelihoods are compared against the same base measure: a normal distribution of whole numbers is
integrated from half below to half above each of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.core.family import Family
from mixfold.core.rows import Array
from mixfold.families.gaussian import Gaussian, GaussianParams

ROWS = 2000  # of the values that are used
COMPONENTS = (1, 3)  # since a column that is skewed or wide may be normal in each component
STEPS = 25
ROUNDED = 1.0 / 12.0  # variance of what rounding to whole numbers adds


def likelihood(family: Family, values: Array) -> float:
    """The mean log-likelihood of the better of few components, less half of BIC's penalty."""
    values = np.sort(values)[:: -(-len(values) // ROWS)]
    whole = bool((values == values.round()).all())
    return max(_likelihood(family, values, k, whole) for k in COMPONENTS)


def _likelihood(family: Family, values: Array, k: int, whole: bool) -> float:
    x, n = values[:, None], len(values)
    params, weights = _begin(family, x, k)
    for _ in range(STEPS):
        joint = _log_densities(family, params, x, whole) + np.log(weights)
        r = np.exp(joint - joint.max(axis=1, keepdims=True))
        r /= r.sum(axis=1, keepdims=True)
        weights = np.maximum(r.mean(axis=0), 1e-12)
        params, _ = family.maximize(family.to_blocks(params, family.sums(params, x, r)))
    joint = _log_densities(family, params, x, whole) + np.log(weights / weights.sum())
    largest = joint.max(axis=1)
    logs = largest + np.log(np.exp(joint - largest[:, None]).sum(axis=1))
    free = k - 1 + family.n_parameters(k, 1)
    return float(logs.mean() - 0.5 * free * np.log(n) / n)


def _begin(family: Family, x: Array, k: int) -> tuple[Any, Array]:
    """Components of overlapping parts of the sorted values."""
    place, centre = (np.arange(len(x)) + 0.5) / len(x), (np.arange(k) + 0.5) / k
    r = np.exp(-8.0 * np.square(k * (place[:, None] - centre) / 2.0))
    r /= r.sum(axis=1, keepdims=True)
    params, _ = family.maximize(family.blocks_of(x, r))
    return params, r.mean(axis=0)


def _log_densities(family: Family, params: Any, x: Array, whole: bool) -> Array:
    if whole and isinstance(family, Gaussian):
        return _integrated(params, x)
    return family.log_density(params, x)


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
