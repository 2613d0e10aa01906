"""Posteriors of rates of counts and waiting times against SciPy's gamma distribution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import digamma

from mixfold.core.conjugate import Prior
from mixfold.core.errors import InvalidInputError
from mixfold.families._gamma_rates import ExponentialRates, GammaPosterior, PoissonRates, log_gap
from mixfold.families.mean_params import MeanParams

K, D = 2, 3
W = np.array([0.4, 0.6])  # of components
RNG = np.random.default_rng(3)
COUNTS = RNG.poisson(3.0, size=(7, D)).astype(np.float64)
GAMMA = GammaPosterior(RNG.uniform(2.5, 6.0, (K, D)), RNG.uniform(0.5, 2.0, (K, D)))


def test_predictive_densities_of_counts_and_waiting_times() -> None:
    a, b, one = GAMMA.shape, GAMMA.rate, np.ones(len(COUNTS))
    counts = stats.nbinom(a, b / (b + 1.0)).logpmf(COUNTS[:, None]).sum(axis=2)
    np.testing.assert_allclose(PoissonRates().log_evidence(GAMMA, COUNTS, one), counts, rtol=1e-9)
    waits = stats.lomax(a, scale=b).logpdf(COUNTS[:, None]).sum(axis=2)
    np.testing.assert_allclose(
        ExponentialRates().log_evidence(GAMMA, COUNTS, one), waits, rtol=1e-9
    )


@pytest.mark.parametrize("weight", [0.3, 2.0])
def test_evidence_of_weighted_counts_and_waiting_times(weight: float) -> None:
    x = COUNTS[:1]
    for conjugate, density in (
        (PoissonRates(), stats.poisson.pmf),
        (ExponentialRates(), lambda x, rate: rate * np.exp(-rate * x)),
    ):
        found = conjugate.log_evidence(GAMMA, x, np.array([weight]))[0]
        for k in range(K):
            total = 0.0
            for j in range(D):
                shape, rate = GAMMA.shape[k, j], GAMMA.rate[k, j]
                grid = np.linspace(1e-9, 40.0, 20_001)
                values = density(x[0, j], grid) ** weight * stats.gamma.pdf(
                    grid, shape, 0.0, 1 / rate
                )
                total += np.log(integrate.simpson(values, x=grid))
            assert found[k] == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("weight", [0.5, 3.0])
def test_matched_rates_have_the_moments_of_the_mixture(weight: float) -> None:
    x, c = COUNTS[0], np.array([0.3, 0.9])
    for conjugate in (PoissonRates(), ExponentialRates()):
        shape, rate = (
            (weight * x, weight) if isinstance(conjugate, PoissonRates) else (weight, weight * x)
        )
        after, floored = conjugate.match(GAMMA, x, weight, c)
        with_row = stats.gamma(GAMMA.shape + shape, scale=1.0 / (GAMMA.rate + rate))
        without = stats.gamma(GAMMA.shape, scale=1.0 / GAMMA.rate)
        share = c[:, None]
        mean = share * with_row.mean() + (1.0 - share) * without.mean()
        second = share * with_row.moment(2) + (1.0 - share) * without.moment(2)
        found = stats.gamma(after.shape, scale=1.0 / after.rate)
        np.testing.assert_allclose(found.mean(), mean, rtol=1e-10)
        np.testing.assert_allclose(found.var(), second - mean**2, rtol=1e-8)
        assert floored == 0
        same, _ = conjugate.match(GAMMA, x, weight, np.zeros(K))
        np.testing.assert_array_equal(same.shape, GAMMA.shape)
        np.testing.assert_array_equal(same.rate, GAMMA.rate)


def test_expected_rates() -> None:
    means = PoissonRates().expected(GAMMA, W).means
    np.testing.assert_allclose(means, GAMMA.shape / GAMMA.rate, rtol=1e-14)
    waits = stats.invgamma(GAMMA.shape, scale=GAMMA.rate).mean()
    np.testing.assert_allclose(ExponentialRates().expected(GAMMA, W).means, waits, rtol=1e-12)
    # the mean of a waiting time exists for shapes above one only
    few = GammaPosterior(np.array([[1.05]]), np.array([[2.0]]))
    assert ExponentialRates().expected(few, W).means == pytest.approx(20.0)


def test_expected_log_densities_of_rates() -> None:
    x, a, b = COUNTS[1], GAMMA.shape, GAMMA.rate
    log_rate = digamma(a) - np.log(b)
    params, gap = PoissonRates().expected_log_params(GAMMA, W)
    found = (x * np.log(params.means) - params.means).sum(axis=1) + gap
    # exp(gap) multiplies the weight: what the mean rate costs more is in the constant
    np.testing.assert_allclose(found, (x * log_rate - a / b).sum(axis=1), rtol=1e-10)
    params, gap = ExponentialRates().expected_log_params(GAMMA, W)
    found = (-np.log(params.means) - x / params.means).sum(axis=1) + gap
    np.testing.assert_allclose(found, (log_rate - x * a / b).sum(axis=1), rtol=1e-10)


@pytest.mark.parametrize("shape", [0.5, 3.0, 999_999.0, 1e6, 1.1e6, 2e6])
def test_digamma_less_the_logarithm(shape: float) -> None:
    """Against three terms of its series, or the difference where that does not cancel."""
    series = -0.5 / shape - 1.0 / (12.0 * shape**2) + 1.0 / (120.0 * shape**4)
    exact = digamma(shape) - np.log(shape) if shape < 100.0 else series
    tolerance = 1e-12 if shape < 100.0 or shape > 1e6 else 1e-7
    assert log_gap(np.array(shape)) == pytest.approx(exact, rel=tolerance)


def test_prior_of_rates() -> None:
    """kappa rows at the mean; of counts at least 0.1, of waiting times one row more."""
    params = MeanParams(np.array([[0.05, 4.0]]))
    counts = PoissonRates().prior(params, Prior(kappa=3.0))
    np.testing.assert_allclose(counts.shape, [[0.3, 12.0]])
    np.testing.assert_allclose(counts.rate, [[3.0, 3.0]])
    waits = ExponentialRates().prior(params, Prior(kappa=3.0))
    np.testing.assert_allclose(waits.shape, [[4.0, 4.0]])
    np.testing.assert_allclose(waits.rate, [[0.15, 12.0]])
    given = PoissonRates().prior(params, Prior(means=[2.0, 5.0], kappa=1.0))
    np.testing.assert_allclose(given.shape, [[2.0, 5.0]])
    for conjugate in (PoissonRates(), ExponentialRates()):
        with pytest.raises(InvalidInputError, match="means of the prior"):
            conjugate.prior(params, Prior(means=[0.0, 5.0]))
