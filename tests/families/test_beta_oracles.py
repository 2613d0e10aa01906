"""Posteriors of probabilities against SciPy's beta distribution and by integration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import digamma

from mixfold import Bernoulli, Binomial, Geometric, Mixture, NegativeBinomial, Prior
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.families._beta import LEAST_COUNT, BetaPosterior, BetaProbabilities, digamma_gap
from mixfold.families._failures import Failures
from mixfold.families._probabilities import LEAST, ProbabilityParams
from mixfold.families._trials import Trials
from mixfold.families.mean_params import MeanParams

K, D = 2, 3
W = np.array([0.4, 0.6])  # of components
RNG = np.random.default_rng(3)
BETA = BetaPosterior(RNG.uniform(2.5, 6.0, (K, D)), RNG.uniform(1.5, 7.0, (K, D)))
X = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]])
FAMILIES: list[Trials | Failures] = [
    Bernoulli(),
    Binomial(4),
    Geometric(),
    NegativeBinomial(2.5),
]


def conjugate(family: Trials | Failures) -> BetaProbabilities[Any]:
    found = family.conjugate
    assert isinstance(found, BetaProbabilities)
    return found


def params(family: Family, p: Any) -> Any:
    """The parameters at which a success has probability p."""
    p = np.asarray(p, dtype=float)
    if isinstance(family, Failures):
        return MeanParams(family.successes * (1.0 - p) / p)
    return ProbabilityParams(p)


def counts(family: Trials | Failures, x: Any) -> tuple[Any, Any]:
    """The successes and failures of a row."""
    if isinstance(family, Trials):
        return x, family.n_trials - x
    return np.full_like(x, family.successes), x


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
@pytest.mark.parametrize("weight", [0.3, 1.0, 2.0])
def test_evidence_is_the_integral_of_the_density(family: Trials | Failures, weight: float) -> None:
    found = conjugate(family).log_evidence(BETA, X, np.full(2, weight))
    grid = np.linspace(0.0, 1.0, 4001)[1:-1]
    for i, k in np.ndindex(2, K):
        total = 0.0
        for j in range(D):
            density = family.log_density(params(family, grid[:, None]), X[i : i + 1, j : j + 1])[0]
            a, b = BETA.successes[k, j], BETA.failures[k, j]
            values = np.exp(weight * density) * stats.beta.pdf(grid, a, b)
            total += np.log(integrate.simpson(values, x=grid))
        assert found[i, k] == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
@pytest.mark.parametrize("weight", [0.5, 3.0])
def test_matched_probabilities_have_the_moments_of_the_mixture(
    family: Trials | Failures, weight: float
) -> None:
    x, c = X[0], np.array([0.3, 0.9])
    after, n_degenerate = conjugate(family).match(BETA, x, weight, c)
    more, less = counts(family, x)
    row = stats.beta(BETA.successes + weight * more, BETA.failures + weight * less)
    before, found = stats.beta(BETA.successes, BETA.failures), stats.beta(*vars(after).values())
    c = c[:, None]
    mean = c * row.mean() + (1.0 - c) * before.mean()
    square = c * (row.var() + row.mean() ** 2) + (1.0 - c) * (before.var() + before.mean() ** 2)
    np.testing.assert_allclose(found.mean(), mean, rtol=1e-12)
    np.testing.assert_allclose(found.var(), square - mean**2, rtol=1e-10)
    assert n_degenerate == 0


def test_a_row_that_belongs_elsewhere_changes_nothing() -> None:
    after, _ = conjugate(Bernoulli()).match(BETA, X[0], 1.0, np.array([1e-25, 1.0]))
    np.testing.assert_array_equal(after.successes[0], BETA.successes[0])
    np.testing.assert_allclose(after.successes[1], BETA.successes[1] + X[0], rtol=1e-12)
    np.testing.assert_allclose(after.failures[1], BETA.failures[1] + 1.0 - X[0], rtol=1e-12)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_expected_parameters(family: Trials | Failures) -> None:
    found = family.mean(conjugate(family).expected(BETA, W))
    a, b = BETA.successes, BETA.failures
    if isinstance(family, Trials):
        np.testing.assert_allclose(found, family.n_trials * a / (a + b), rtol=1e-12)
    else:  # (1 - p) / p has a beta prime distribution
        expected = family.successes * stats.betaprime(b, a).mean()
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_expected_parameters_are_within_their_limits() -> None:
    extreme = BetaPosterior(np.array([[1e-12, 5.0]]), np.array([[5.0, 1e-12]]))
    found = conjugate(Bernoulli()).expected(extreme, np.ones(1)).probabilities
    np.testing.assert_allclose(found, [[LEAST, 1.0 - LEAST]])
    # where the mean does not exist, as if there were a tenth of a success more than one
    few = conjugate(Geometric()).expected(BetaPosterior(np.array([[0.5]]), np.ones((1, 1))), W[:1])
    assert few.means == pytest.approx(10.0)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_expected_logarithms(family: Trials | Failures) -> None:
    """E[log p(x)] is linear in E[log p] and E[log(1 - p)]."""
    theta, constant = conjugate(family).expected_log_params(BETA, W)
    found = family.log_density(theta, X) + constant
    a, b = BETA.successes, BETA.failures
    more, less = counts(family, X[:, None])
    logs = more * (digamma(a) - digamma(a + b)) + less * (digamma(b) - digamma(a + b))
    expected = logs.sum(axis=2) + family.log_base_measure(X)[:, None]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_differences_of_digamma_do_not_cancel() -> None:
    more, count = np.array([2.5, 3.0, 4.0]), np.array([0.7, 1e3, 1e50])
    expected = [digamma(3.2) - digamma(0.7), 1 / 1000 + 1 / 1001 + 1 / 1002, 4e-50]
    np.testing.assert_allclose(digamma_gap(more, count), expected, rtol=1e-10)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_intervals_are_quantiles(family: Trials | Failures, level: float) -> None:
    low, high = conjugate(family).intervals(BETA, W, level)["means"]
    p = stats.beta(BETA.successes, BETA.failures)
    ends = p.ppf(0.5 - 0.5 * level), p.ppf(0.5 + 0.5 * level)
    if isinstance(family, Failures):
        ends = ends[::-1]
    for found, end in zip((low, high), ends, strict=True):
        np.testing.assert_allclose(found, family.mean(params(family, end)), rtol=1e-9)


def test_priors_count_as_kappa_rows() -> None:
    given = Prior(kappa=3.0)
    trials = conjugate(Binomial(4)).prior(params(Binomial(4), [[0.25, LEAST]]), given)
    np.testing.assert_allclose(trials.successes, [[3.0, 3.0 * LEAST_COUNT]])
    np.testing.assert_allclose(trials.failures, [[9.0, 12.0]])
    failures = conjugate(NegativeBinomial(2.5)).prior(MeanParams(np.array([[4.0, 1e-9]])), given)
    np.testing.assert_allclose(failures.successes, 8.5)
    np.testing.assert_allclose(failures.failures, [[12.0, 3.0 * LEAST_COUNT]])
    # the mean of the parameters under the prior is that of the prior
    found = conjugate(NegativeBinomial(2.5)).expected(failures, np.ones(1)).means
    np.testing.assert_allclose(found[0, 0], 4.0)
    other = conjugate(Bernoulli()).prior(params(Bernoulli(), [[0.5]]), Prior(means=[0.2]))
    np.testing.assert_allclose([other.successes, other.failures], [[[0.2]], [[0.8]]])


@pytest.mark.parametrize(
    ("family", "mean", "says"),
    [(Bernoulli(), 1.0, "below 1"), (Binomial(4), 0.0, "below 4"), (Geometric(), -1.0, "above 0")],
)
def test_means_of_priors_outside_the_domain_are_refused(
    family: Trials | Failures, mean: float, says: str
) -> None:
    with pytest.raises(InvalidInputError, match=says):
        conjugate(family).prior(params(family, [[0.5]]), Prior(means=[mean]))


@pytest.mark.parametrize("name", ["successes", "failures"])
@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_posteriors_outside_their_domain_are_refused(name: str, bad: float) -> None:
    conjugate(Bernoulli()).check(BETA, K, D)
    wrong = {**vars(BETA), name: np.full((K, D), bad)}
    with pytest.raises(InvalidInputError, match=name):
        conjugate(Bernoulli()).check(BetaPosterior(**wrong), K, D)


@pytest.mark.parametrize("learner", ["moment-matching", "online-vb"])
def test_bayesian_learners_find_the_parameters(learner: str) -> None:
    rng = np.random.default_rng(0)
    p = np.array([[0.1, 0.2, 0.9, 0.8], [0.8, 0.9, 0.2, 0.1]])
    x = (rng.random((3000, 4)) < p[rng.choice(2, size=3000, p=[0.3, 0.7])]).astype(float)
    model = Mixture("bernoulli", 2, learner=learner, random_state=0).fit(x)
    np.testing.assert_allclose(model.probabilities_, p, atol=0.06)
    np.testing.assert_allclose(model.weights_, [0.3, 0.7], atol=0.05)
    low, high = model.credible_intervals()["means"]
    assert ((low < model.means_) & (model.means_ < high)).all()
