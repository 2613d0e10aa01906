"""Dirichlet posteriors of probabilities, against beta posteriors, scipy and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import digamma

from mixfold import (
    Bernoulli,
    Categorical,
    Mixture,
    MomentMatching,
    Multinomial,
    OnlineVB,
    Prior,
)
from mixfold.core.errors import InvalidInputError
from mixfold.core.statistics import Block
from mixfold.families._dirichlet_posteriors import DirichletPosterior
from mixfold.families._probabilities import LEAST, ProbabilityParams

COUNTS = np.array([[0.5, 2.0, 3.5], [4.0, 0.2, 1.0]])
P = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])


def conjugate(family: Multinomial | Categorical) -> Any:
    return family.conjugate


def draw_rows(n: int) -> np.ndarray:
    """Rows of two components, whose sums differ."""
    rng = np.random.default_rng(3)
    totals = rng.integers(5, 25, size=n)
    return rng.multinomial(totals, P[rng.choice(2, size=n, p=[0.35, 0.65])]).astype(np.float64)


# the posterior


@pytest.mark.parametrize("weight", [1.0, 2.5, 1e20])
def test_two_levels_are_a_beta_posterior(weight: float) -> None:
    x, c = np.array([1.0, 0.0]), np.array([0.3, 0.9])
    p = np.array([[0.3, 0.6], [0.8, 0.5]])
    levels, beta = conjugate(Categorical(2)), Bernoulli().conjugate
    one = levels.prior(ProbabilityParams(np.stack([1.0 - p, p], axis=2)), Prior(kappa=3.0))
    other = beta.prior(ProbabilityParams(p), Prior(kappa=3.0))
    for _ in range(3):
        np.testing.assert_allclose(one.counts[:, :, 1], other.successes, rtol=1e-9)
        np.testing.assert_allclose(one.counts[:, :, 0], other.failures, rtol=1e-9)
        rows, weights = np.array([x, 1.0 - x]), np.full(2, weight)
        found = levels.log_evidence(one, rows, weights)
        expected = beta.log_evidence(other, rows, weights)
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        one, other = levels.match(one, x, weight, c)[0], beta.match(other, x, weight, c)[0]


def test_the_predictive_density_is_that_of_scipy() -> None:
    x = np.array([[3.0, 0.0, 2.0], [0.0, 0.0, 0.0], [1.0, 7.0, 4.0]])
    found = conjugate(Multinomial()).log_evidence(DirichletPosterior(COUNTS), x, np.ones(3))
    expected = [[stats.dirichlet_multinomial.logpmf(r, a, r.sum()) for a in COUNTS] for r in x]
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_one_level_has_its_mean_probability() -> None:
    posterior = DirichletPosterior(COUNTS[:, None])
    found = conjugate(Categorical(3)).log_evidence(posterior, np.array([[0.0], [2.0]]), np.ones(2))
    mean = COUNTS / COUNTS.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(found), mean[:, [0, 2]].T, rtol=1e-12)


def test_means_and_the_sum_of_variances_are_matched() -> None:
    x, c = np.array([3.0, 0.0, 2.0]), np.array([0.25, 0.6])
    found, count = conjugate(Multinomial()).match(DirichletPosterior(COUNTS), x, 1.0, c)
    assert count == 0
    for k in range(2):
        before, after = stats.dirichlet(COUNTS[k]), stats.dirichlet(COUNTS[k] + x)
        mean = c[k] * after.mean() + (1.0 - c[k]) * before.mean()
        square = c[k] * (after.var() + after.mean() ** 2)
        square = square + (1.0 - c[k]) * (before.var() + before.mean() ** 2)
        matched = stats.dirichlet(found.counts[k])
        np.testing.assert_allclose(matched.mean(), mean, rtol=1e-12)
        assert matched.var().sum() == pytest.approx((square - mean**2).sum(), rel=1e-12)


def test_rows_of_other_components_change_nothing() -> None:
    posterior = DirichletPosterior(COUNTS)
    c = np.array([1.0, 0.0])
    found = conjugate(Multinomial()).match(posterior, np.array([1.0, 0.0, 2.0]), 1.0, c)[0]
    np.testing.assert_allclose(found.counts[0], COUNTS[0] + [1.0, 0.0, 2.0], rtol=1e-12)
    np.testing.assert_array_equal(found.counts[1], COUNTS[1])


def test_expected_logarithms_are_exact_for_rows_of_any_sum() -> None:
    family, x = Multinomial(7), np.array([[3.0, 1.0, 2.0], [0.0, 0.0, 1.0], [9.0, 30.0, 2.0]])
    params, constant = conjugate(family).expected_log_params(DirichletPosterior(COUNTS), np.ones(2))
    logs = digamma(COUNTS) - digamma(COUNTS.sum(axis=1, keepdims=True))
    expected = x @ logs.T + family.log_base_measure(x)[:, None]
    np.testing.assert_allclose(family.log_density(params, x) + constant, expected, rtol=1e-12)


def test_limits_hold_for_extreme_counts() -> None:
    posterior = DirichletPosterior(np.array([[1e-50, 1.0, 1e40], [1e-50, 1e-50, 1e-50]]))
    family = Multinomial()
    expected = conjugate(family).expected(posterior, np.full(2, 0.5))
    family.check_params(expected, 2, 3)
    params, constant = conjugate(family).expected_log_params(posterior, np.full(2, 0.5))
    assert np.isfinite(constant).all()
    assert params.probabilities.min() >= 0.9 * LEAST
    for c in (1e-25, 1e-10, 0.5, 1.0):
        found = conjugate(family).match(posterior, np.array([5.0, 0, 1e59]), 1.0, np.full(2, c))[0]
        conjugate(family).check(found, 2, 3)


def test_rounding_below_zero_is_not_absorbed() -> None:
    block = Block.of_means(np.array([2.0, 3.0]), np.array([[1.0, -1e-17, 0.5], [0.0, 1.0, 2.0]]))
    found = conjugate(Multinomial()).absorb(DirichletPosterior(COUNTS), (block,))
    more = np.array([[2.0, 0.0, 1.0], [0.0, 3.0, 6.0]])
    np.testing.assert_allclose(found.counts, COUNTS + more)


def test_the_prior_counts_rows() -> None:
    params = ProbabilityParams(np.array([[0.2, 0.8, LEAST]]))
    found = conjugate(Multinomial(10)).prior(params, Prior(kappa=0.5))
    np.testing.assert_allclose(found.counts[0, :2], [1.0, 4.0])
    assert 0.001 < found.counts[0, 2] < 0.1
    given = conjugate(Multinomial()).prior(params, Prior(kappa=2.0, means=[3.0, 1.0, 1.0]))
    np.testing.assert_allclose(given.counts, [[6.0, 2.0, 2.0]])
    with pytest.raises(InvalidInputError, match="must be above 0"):
        conjugate(Multinomial()).prior(params, Prior(means=[1.0, 0.0, 1.0]))
    with pytest.raises(InvalidInputError, match=r"shape \(3,\)"):
        conjugate(Categorical(3)).prior(ProbabilityParams(P[:, None]), Prior(means=[1.0, 1.0, 1.0]))


# learners


@pytest.mark.parametrize("learner", [MomentMatching(), OnlineVB(batch_size=100)], ids=repr)
def test_learners_find_the_probabilities(learner: Any) -> None:
    model = Mixture("multinomial", 2, learner=learner, random_state=0).fit(draw_rows(4000))
    np.testing.assert_allclose(model.weights_, [0.35, 0.65], atol=0.04)
    np.testing.assert_allclose(model.probabilities_, P, atol=0.04)
    low, high = model.credible_intervals(0.99)["probabilities"]
    assert ((low < model.probabilities_) & (model.probabilities_ < high)).all()


@pytest.mark.parametrize("learner", [MomentMatching(), OnlineVB(batch_size=100)], ids=repr)
def test_learners_find_latent_classes(learner: Any) -> None:
    rng = np.random.default_rng(1)
    truth = np.array([[[0.8, 0.1, 0.1]] * 6, [[0.1, 0.2, 0.7]] * 6])
    labels = (np.arange(4000) % 3 > 0).astype(int)
    x = Categorical(3).sample(ProbabilityParams(truth), labels, rng)
    model = Mixture(Categorical(3), 2, learner=learner, random_state=0).fit(x)
    np.testing.assert_allclose(model.weights_, [1.0 / 3.0, 2.0 / 3.0], atol=0.04)
    np.testing.assert_allclose(model.probabilities_, truth, atol=0.06)
