"""Geometric components, against scipy.stats, EM in plain NumPy, and exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from mixfold import EM, Geometric, Mixture
from mixfold.core.errors import InvalidInputError
from mixfold.core.statistics import Block
from mixfold.families._failures import log1mexp
from mixfold.families.mean_params import MeanParams
from mixfold.models.mixture_model import MixtureParams
from plain_em import means_of, plain_em

MEANS = np.array([[1.0, 9.0], [12.0, 0.5]])
WEIGHTS = np.array([0.4, 0.6])


def rows(n: int = 400) -> np.ndarray:
    rng = np.random.default_rng(3)
    labels = rng.choice(2, size=n, p=WEIGHTS)
    return np.asarray(stats.geom.rvs(1.0 / (1.0 + MEANS[labels]), random_state=rng) - 1.0)


def log_density(x: np.ndarray, means: np.ndarray) -> np.ndarray:
    return np.asarray(stats.geom.logpmf(x[:, None] + 1.0, 1.0 / (1.0 + means)).sum(axis=2))


def test_passes_of_em_are_those_in_numpy() -> None:
    x = rows()
    start = MixtureParams(np.array([0.5, 0.5]), MeanParams(np.array([[2.0, 4.0], [6.0, 3.0]])))
    model = Mixture(Geometric(), 2, init=start, learner=EM(tol=0.0, max_iter=7)).fit(x)
    weights, means, likelihood = plain_em(
        lambda theta: log_density(x, theta), means_of(x), [0.5, 0.5], start.components.means, 7
    )
    np.testing.assert_allclose(model.weights_, weights, rtol=1e-9)
    np.testing.assert_allclose(model.means_, means, rtol=1e-9)
    assert model.score(x) == pytest.approx(likelihood, rel=1e-9)
    np.testing.assert_allclose(model.probabilities_, 1.0 / (1.0 + means), rtol=1e-9)


def test_the_parameters_of_many_rows_are_found() -> None:
    model = Mixture("geometric", 2, random_state=0).fit(rows(20_000))
    np.testing.assert_allclose(model.weights_, WEIGHTS, atol=0.03)
    np.testing.assert_allclose(model.means_, MEANS, rtol=0.1)


def test_one_component_is_the_mean() -> None:
    x = rows()
    model = Mixture("geometric", 1).fit(x)
    np.testing.assert_allclose(model.means_[0], x.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(model.score_samples(x), log_density(x, model.means_)[:, 0])


def test_zeros_are_floored_and_counted() -> None:
    model = Mixture("geometric", 1).fit(np.zeros((20, 2)))
    assert model.n_degenerate_ > 0
    np.testing.assert_allclose(model.score_samples(np.zeros((3, 2))), 0.0, atol=1e-12)
    means = np.array([[0.0, 2.0], [4.0, 2.0]])
    params, n_degenerate = Geometric(floor=1e-3).maximize((Block.of_means(np.ones(2), means),))
    np.testing.assert_allclose(params.means, [[2e-3, 2.0], [4.0, 2.0]])
    assert n_degenerate == 1


@pytest.mark.parametrize("value", [-1.0, 0.5])
def test_values_outside_the_support_are_refused_by_row(value: float) -> None:
    x = rows()
    x[16, 1] = value
    with pytest.raises(InvalidInputError, match=r"row 17, column 2 .*whole numbers >= 0"):
        Mixture("geometric", 2).fit(x)


@pytest.mark.parametrize("mean", [1e-60, 1e-8, 1.0, 1e15, 1e60])
def test_densities_of_extreme_means(mean: float) -> None:
    """log p(x) = x log(m / (1 + m)) - log(1 + m), with both logarithms as differences."""
    m = Fraction(mean)
    log_stay = float(np.log(mean) - np.log1p(mean)) if mean < 1 else -np.log1p(float(1 / m))
    for x in (0.0, 1.0, mean.__ceil__() * 1.0):
        found = Geometric().log_density(MeanParams(np.array([[mean]])), np.array([[x]]))
        np.testing.assert_allclose(found, x * log_stay - np.log1p(mean), rtol=1e-12, atol=1e-15)


def test_samples_of_extreme_means_are_whole_and_finite() -> None:
    means = np.array([[1e-60], [1e60]])
    x = Geometric().sample(MeanParams(means), np.repeat([0, 1], 500), np.random.default_rng(0))
    assert (x[:500] == 0.0).all()
    np.testing.assert_allclose(x[500:].mean(), 1e60, rtol=0.2)
    assert (x == x.round()).all()


def test_log1mexp_is_exact_at_both_ends() -> None:
    np.testing.assert_allclose(log1mexp(np.array([-1e-60])), np.log(1e-60), rtol=1e-14)
    np.testing.assert_allclose(log1mexp(np.array([-100.0])), -np.exp(-100.0), rtol=1e-14)
    np.testing.assert_allclose(log1mexp(np.log([0.25, 0.5, 0.75])), np.log([0.75, 0.5, 0.25]))


def test_divergence_is_the_likelihood_that_is_lost() -> None:
    """D(x, c) is log p(x) at the mean x less that at the mean c; a centre at zero is moved."""
    x, centers = np.array([[1.0, 4.0], [0.0, 3.0]]), np.array([[2.0, 3.0], [9.0, 2.0]])
    tiny = np.maximum(x, 1e-12)
    best = stats.geom.logpmf(x + 1.0, 1.0 / (1.0 + tiny)).sum(axis=1)
    found = Geometric().divergence(x, centers, np.ones(2))
    np.testing.assert_allclose(found, best[:, None] - log_density(x, centers), atol=1e-9)
    moved = Geometric().divergence(x, np.zeros((1, 2)), np.array([3.0, 1.0]))
    np.testing.assert_allclose(
        moved, Geometric().divergence(x, np.array([[0.375, 1.875]]), np.ones(2))
    )


def test_divergence_of_large_counts_does_not_cancel() -> None:
    """For large means it tends to that of the exponential distribution, x/c - log(x/c) - 1."""
    x, c = np.array([[3e50]]), np.array([[1e50]])
    expected = 3.0 - np.log(3.0) - 1.0
    many = np.full((1000, 1), 1.0)
    found = Geometric().divergence(np.vstack([x, many]), c, np.r_[1e-60, np.ones(1000)])[0]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
