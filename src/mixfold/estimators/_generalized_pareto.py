"""Tails of distributions beyond the data, by the generalised Pareto distribution.

Excesses over a high level have nearly the survival function (1 + xi y / sigma)^(-1/xi), whatever
the distribution (Pickands 1975). The level of a small probability q is then

    t + sigma / xi ((q / p_t)^(-xi) - 1),

where p_t is the probability of exceeding t.

References: Siffer et al. (2017), Anomaly detection in streams with extreme value theory; Zhang and
Stephens (2009), A new and efficient estimation method for the generalized Pareto distribution.
"""

from __future__ import annotations

from math import expm1, log
from typing import NamedTuple

import numpy as np

from mixfold.core.rows import Array

FEWEST = 10  # excesses above zero from which a distribution is estimated


class GeneralizedPareto(NamedTuple):
    """The distribution of excesses: `shape` xi is above 0 for heavy tails."""

    shape: float
    scale: float

    def level(self, survival: float) -> float:
        """The excess that is exceeded with a probability."""
        exponent = -self.shape * log(survival)
        # xi -> 0 is the exponential distribution
        ratio = expm1(exponent) / exponent if exponent else 1.0
        return -self.scale * log(survival) * ratio


def fit_excesses(excesses: Array) -> GeneralizedPareto | None:
    """The distribution of positive excesses, in ascending order; None if there are too few.

    This is the mean of the profile likelihood of theta = -xi / sigma under the weak prior of Zhang
    and Stephens, on a grid. Unlike moments it serves tails that have no mean.
    """
    n = len(excesses)
    if n < FEWEST or not excesses[0] > 0.0:
        return None
    points = 30 + int(n**0.5)
    theta = 1.0 - np.sqrt(points / (np.arange(1, points + 1) - 0.5))
    theta = theta / (3.0 * excesses[int(n / 4 + 0.5) - 1]) + 1.0 / excesses[-1]
    theta = theta[theta != 0.0]
    shape = np.log1p(-theta[:, None] * excesses).mean(axis=1)
    log_likelihood = n * (np.log(-theta / shape) - shape - 1.0)
    weight = np.exp(log_likelihood - log_likelihood.max())
    mean = float(theta @ weight / weight.sum())
    found = float(np.log1p(-mean * excesses).mean())
    if mean == 0.0 or found == 0.0:
        return GeneralizedPareto(0.0, float(excesses.mean()))
    return GeneralizedPareto(found, -found / mean)
