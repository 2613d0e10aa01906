"""Zero-inflated Poisson components, against statsmodels, scipy.stats and EM with a latent label."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import lambertw

from mixfold import EM, Mixture, Poisson, ZeroInflatedPoisson
from mixfold.core.errors import InvalidInputError
from mixfold.core.statistics import Block
from mixfold.families._truncated_poisson import truncated_mean, truncated_rates
from mixfold.families.mean_params import MeanParams
from mixfold.families.zero_inflated_poisson import LEAST_INFLATION, ZeroInflatedPoissonParams
from mixfold.models.mixture_model import MixtureParams

EXACT = EM(tol=1e-14, max_iter=5000)


def rows(rate: float, inflation: float, n: int = 500, seed: int = 0, d: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.asarray(rng.poisson(rate, (n, d)) * (rng.random((n, d)) >= inflation), dtype=float)


def at(rate: float, inflation: float) -> ZeroInflatedPoissonParams:
    return ZeroInflatedPoissonParams(np.array([[rate]]), np.array([[inflation]]))


@pytest.mark.parametrize("rate", [1e-60, 1e-6, 0.3, 4.0, 700.0, 1e8])
@pytest.mark.parametrize("inflation", [1e-12, 0.2, 0.999, 1.0 - 1e-12])
def test_densities_are_scipys(rate: float, inflation: float) -> None:
    x = np.array([0.0, 1.0, 2.0, 30.0, 1000.0, 1e6])[:, None]
    family, params = ZeroInflatedPoisson(), at(rate, inflation)
    found = family.log_density(params, x)
    np.testing.assert_allclose(found, family.scipy_log_density(params, x), 1e-10, 1e-10)


@pytest.mark.parametrize(("rate", "inflation"), [(4.0, 0.3), (0.8, 0.5), (20.0, 0.9)])
def test_one_component_is_the_fit_of_statsmodels(rate: float, inflation: float) -> None:
    from statsmodels.discrete.count_model import ZeroInflatedPoisson as Reference

    x = rows(rate, inflation, 800)
    model = Mixture(ZeroInflatedPoisson(), 1, learner=EXACT).fit(x)
    start = [np.log(inflation / (1.0 - inflation)), np.log(rate)]
    reference = Reference(x[:, 0], np.ones(len(x))).fit(
        start, method="bfgs", disp=0, gtol=1e-9, warn_convergence=False
    )
    logit, log_rate = reference.params
    assert model.rates_[0, 0] == pytest.approx(np.exp(log_rate), rel=1e-5)
    assert model.inflation_[0, 0] == pytest.approx(1.0 / (1.0 + np.exp(-logit)), rel=1e-4)
    assert model.score(x) == pytest.approx(reference.llf / len(x), abs=1e-10)


def test_one_m_step_is_where_em_with_a_label_of_zeros_ends() -> None:
    """The label tells zeros that are added from those of Poisson counts (Lambert 1992)."""
    x = rows(2.0, 0.4)[:, 0]
    rate, inflation = 1.0, 0.5
    for _ in range(5000):
        label = np.where(x == 0, inflation / (inflation + (1 - inflation) * np.exp(-rate)), 0.0)
        inflation, rate = label.mean(), x.sum() / (1.0 - label).sum()
    family = ZeroInflatedPoisson()
    params, _ = family.maximize(family.blocks_of(x[:, None], np.ones((len(x), 1))))
    np.testing.assert_allclose(params.rates[0, 0], rate, rtol=1e-9)
    np.testing.assert_allclose(params.inflation[0, 0], inflation, rtol=1e-9)


def test_too_few_zeros_leave_a_poisson_distribution() -> None:
    """Where counts have fewer zeros than Poisson counts the likelihood is largest at pi = 0."""
    x = np.maximum(rows(2.0, 0.0), 1.0)
    model = Mixture(ZeroInflatedPoisson(), 1).fit(x)
    assert model.inflation_[0, 0] == LEAST_INFLATION
    assert model.rates_[0, 0] == pytest.approx(x.mean())
    assert model.n_degenerate_ == 0
    plain = Poisson().log_density(MeanParams(model.rates_), x)
    np.testing.assert_allclose(model.score_samples(x), plain[:, 0], rtol=1e-9)
    for inflation in (1e-3, 0.1):
        rate = x.mean() / (1.0 - inflation)
        for other in (x.mean(), rate):
            lower = ZeroInflatedPoisson().log_density(at(other, inflation), x)
            assert lower.mean() < model.score(x)


def test_parameters_are_recovered_within_their_errors() -> None:
    """Most estimates are within two standard errors; these are those over the replications."""
    rates, inflation = np.array([3.0, 15.0]), np.array([0.5, 0.2])
    found = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        labels = rng.integers(2, size=3000)
        counts = rng.poisson(rates[labels][:, None], (3000, 2))
        x = counts * (rng.random((3000, 2)) >= inflation[labels][:, None])
        model = Mixture(ZeroInflatedPoisson(), 2, random_state=0).fit(x.astype(float))
        order = np.argsort(model.rates_[:, 0])
        found.append([*model.rates_[order].ravel(), *model.inflation_[order].ravel()])
    estimates, truth = np.array(found), [*np.repeat(rates, 2), *np.repeat(inflation, 2)]
    error = np.abs(estimates - truth) / estimates.std(axis=0, ddof=1)
    assert (error < 2.0).mean() > 0.85
    bias = np.abs(estimates.mean(axis=0) - truth) / estimates.std(axis=0, ddof=1) * np.sqrt(12)
    assert (bias < 4.0).all()


def test_passes_of_em_are_those_in_numpy() -> None:
    x = np.concatenate([rows(2.0, 0.3, 150, 1, 2), rows(9.0, 0.5, 100, 2, 2)])
    start = ZeroInflatedPoissonParams(
        np.array([[1.0, 2.0], [6.0, 7.0]]), np.array([[0.1, 0.2], [0.3, 0.1]])
    )
    weights, rates, inflation = np.array([0.4, 0.6]), start.rates, start.inflation
    learner = EM(tol=0.0, max_iter=5, accelerate=False)
    model = Mixture(
        ZeroInflatedPoisson(), 2, init=MixtureParams(weights, start), learner=learner
    ).fit(x)
    for _ in range(5):
        counts = np.log1p(-inflation) + stats.poisson.logpmf(x[:, None], rates)
        both = np.where(x[:, None] == 0, np.logaddexp(np.log(inflation), counts), counts)
        joint = np.exp(both.sum(axis=2)) * weights
        r = joint / joint.sum(axis=1, keepdims=True)
        weights = r.mean(axis=0)
        means = r.T @ x / r.sum(axis=0)[:, None]
        ratio = means / (r.T @ (x > 0) / r.sum(axis=0)[:, None])
        truncated = ratio + lambertw(-ratio * np.exp(-ratio)).real
        assert (truncated > means).all()
        rates, inflation = truncated, 1.0 - means / truncated
    np.testing.assert_allclose(model.weights_, weights, rtol=1e-8)
    np.testing.assert_allclose(model.rates_, rates, rtol=1e-8)
    np.testing.assert_allclose(model.inflation_, inflation, rtol=1e-7)
    np.testing.assert_allclose(model.means_, (1.0 - inflation) * rates, rtol=1e-8)


@settings(max_examples=300, deadline=None)
@given(rate=st.floats(1e-6, 1e60))
def test_truncated_rates_invert_their_mean(rate: float) -> None:
    mean = truncated_mean(np.array([rate]))
    (found,) = truncated_rates(mean)
    # a mean near one is rounded to what a rate of 1e-16 changes
    assert found == pytest.approx(rate, rel=1e-10, abs=1e-14)


@settings(max_examples=200, deadline=None)
@given(
    means=st.lists(st.floats(0.0, 1e60), min_size=1, max_size=4),
    share=st.floats(-1e-12, 1.0 + 1e-12),
)
def test_any_blocks_give_valid_parameters(means: list[float], share: float) -> None:
    """Also those that no rows have, which learners can reach by rounding."""
    mean = np.array(means)[:, None]
    blocks = (Block.of_means(np.ones(len(mean)), np.hstack([np.full_like(mean, share), mean])),)
    family = ZeroInflatedPoisson()
    params, _ = family.maximize(blocks)
    family.check_params(params, len(mean), 1)
    x = np.array([[0.0], [1.0], [1e5]])
    assert np.isfinite(family.log_density(params, x)).all()


def test_zeros_only_are_floored_and_counted() -> None:
    model = Mixture(ZeroInflatedPoisson(), 1).fit(np.zeros((20, 1)))
    assert model.n_degenerate_ > 0
    np.testing.assert_allclose(model.score_samples([[0.0]]), 0.0, atol=1e-11)


def test_samples_have_their_moments() -> None:
    family, labels = ZeroInflatedPoisson(), np.zeros(40_000, dtype=int)
    for rate in (3.0, 1e17):
        x = family.sample(at(rate, 0.3), labels, np.random.default_rng(0))
        np.testing.assert_allclose((x == 0).mean(), 0.3 + 0.7 * np.exp(-rate), atol=0.01)
        np.testing.assert_allclose(x[x > 0].mean(), rate / -np.expm1(-rate), rtol=0.01)


def test_zeros_tell_little_about_centres_where_there_are_many() -> None:
    centers = np.array([[3.0], [9.0]])
    few, many = (np.r_[np.zeros(n), np.full(20, 5.0)][:, None] for n in (1, 80))
    family = ZeroInflatedPoisson()
    one, other = (family.divergence(x, centers, np.ones(len(x)))[0] for x in (few, many))
    assert one[1] - one[0] > 0.5
    assert 0.0 < other[1] - other[0] < 0.1


@pytest.mark.parametrize("value", [-1.0, 0.5])
def test_values_outside_the_support_are_refused_by_row(value: float) -> None:
    x = rows(3.0, 0.2, 50, d=2)
    x[16, 1] = value
    with pytest.raises(InvalidInputError, match=r"row 17, column 2 .*whole numbers >= 0"):
        Mixture("zero-inflated-poisson", 2).fit(x)
