"""Rates of Poisson distributions of which only counts above zero are observed."""

from __future__ import annotations

import numpy as np

from mixfold.core.rows import Array

ITERATIONS = 12  # eight give all digits in all of the domain


def truncated_mean(rate: Array) -> Array:
    """The mean rate / (1 - exp(-rate)) of counts above zero, for rates above zero."""
    return np.asarray(rate / -np.expm1(-rate))


def truncated_rates(mean: Array) -> Array:
    """The rates at which counts above zero have this mean; zero where it is not above one.

    The mean is a convex function of the rate, so Newton's method converges from above. It begins
    with the smaller of two bounds, since the mean is above the rate and above 1 + rate / 2. The
    number of iterations is fixed, so that no rate depends on the others.
    """
    above = mean > 1.0
    target = np.where(above, mean, 2.0)
    rate = np.minimum(target, 2.0 * (target - 1.0))
    for _ in range(ITERATIONS):
        found = truncated_mean(rate)
        slope = found / rate * (1.0 - found * np.exp(-rate))
        step = np.divide(found - target, slope, out=np.zeros_like(rate), where=slope > 0.0)
        rate = np.maximum(rate - step, 0.5 * rate)  # rounding is large where the mean is near one
    return np.where(above, rate, 0.0)
