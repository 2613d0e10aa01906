"""What Poisson and exponential components are, against scipy.stats and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from mixfold.core.statistics import Block
from mixfold.families._positive import Positive
from mixfold.families.exponential import Exponential
from mixfold.families.mean_params import MeanParams
from mixfold.families.poisson import Poisson

FAMILIES: list[Positive] = [Poisson(), Exponential()]
MEANS = np.array([[1.0, 4.0], [2.0, 8.0]])
X = np.array([[1.0, 3.0], [2.0, 2.0], [7.0, 1.0]])
C = np.array([[2.0, 3.0], [4.0, 6.0]])


def log_density(family: Positive, x: Any, mean: Any) -> Any:
    if isinstance(family, Poisson):
        return stats.poisson.logpmf(x, mean)
    return stats.expon.logpdf(x, scale=mean)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_divergence_is_what_likelihood_is_lost(family: Positive) -> None:
    """D(x, c) is the log-likelihood of the mean x less that of the mean c."""
    found = family.divergence(X, C, np.ones(len(X)))
    for i, x in enumerate(X):
        for j, c in enumerate(C):
            lost = (log_density(family, x, x) - log_density(family, x, c)).sum()
            np.testing.assert_allclose(found[i, j], lost, rtol=1e-12, atol=1e-12)


def test_zeros_are_moved_off_zero() -> None:
    """A centre at zero counts as half the weighted mean of counts, or a thousandth of times."""
    x, weight = np.array([[0.0], [4.0]]), np.array([1.0, 3.0])
    zero = np.zeros((1, 1))
    counts = Poisson().divergence(x, zero, weight)
    np.testing.assert_allclose(counts, Poisson().divergence(x, np.array([[1.5]]), weight))
    times = Exponential().divergence(x, zero, weight)
    ratio = 4.0 / 0.003
    np.testing.assert_allclose(times, [[0.0], [ratio - np.log(ratio) - 1.0]])
    assert np.isfinite(counts).all()
    assert np.isfinite(times).all()


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_a_component_of_zeros_is_floored_and_counted(family: Positive) -> None:
    means = np.array([[0.0, 0.0], [0.0, 5.0], [3.0, 1.0]])
    weight = np.array([1.0, 2.0, 5.0])
    params, count_degenerate = family.maximize((Block.of_means(weight, means),))
    whole = weight @ means / weight.sum()
    floor = family.floor * whole
    np.testing.assert_allclose(params.means, np.maximum(means, floor), rtol=1e-12)
    assert count_degenerate == 2


def test_half_way_between_parameters() -> None:
    a, b = MeanParams(MEANS), MeanParams(MEANS[::-1].copy())
    np.testing.assert_allclose(Poisson().blend(a, b, 0.25).means, 0.75 * MEANS + 0.25 * MEANS[::-1])
    rates = 0.75 / MEANS + 0.25 / MEANS[::-1]
    np.testing.assert_allclose(Exponential().blend(a, b, 0.25).means, 1.0 / rates)


def test_bounds() -> None:
    assert Poisson().parameter_bounds(MeanParams(MEANS)) == (8.0, 1.0, 8.0)
    assert Exponential().parameter_bounds(MeanParams(MEANS)) == (1.0, 0.125, 1.0)
