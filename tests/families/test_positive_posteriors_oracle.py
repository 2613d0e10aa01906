"""Poisson and exponential components and the gamma posteriors of their rates, against formulae."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from mixfold import Exponential, Poisson, Prior
from mixfold.core.conjugate import REACH
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.core.statistics import Block
from mixfold.families._gamma_rates import GammaPosterior, GammaRates
from mixfold.families.mean_params import MeanParams

FAMILIES = [Poisson, Exponential]
Positive = type[Poisson] | type[Exponential]


def conjugate(family: Positive) -> GammaRates[MeanParams]:
    found = family().conjugate
    assert isinstance(found, GammaRates)
    return found


def equal_weights(posterior: GammaPosterior) -> Array:
    return np.full(len(posterior.shape), 1.0 / len(posterior.shape))


def expected(family: Positive, posterior: GammaPosterior) -> MeanParams:
    return conjugate(family).expected(posterior, equal_weights(posterior))


def expected_log_params(family: Positive, posterior: GammaPosterior) -> tuple[MeanParams, Array]:
    return conjugate(family).expected_log_params(posterior, equal_weights(posterior))


def random_posterior(seed: int) -> GammaPosterior:
    rng = np.random.default_rng(seed)
    return GammaPosterior(rng.uniform(1.2, 9.0, size=(3, 2)), rng.uniform(0.2, 5.0, size=(3, 2)))


# priors


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("given", [False, True])
def test_a_prior_has_the_means_it_is_about(family: Positive, given: bool) -> None:
    means = np.array([[0.5, 3.0], [0.7, 11.0]])
    prior = Prior(kappa=0.3)
    start = MeanParams(means)
    if given:
        prior, start = replace(prior, means=means), MeanParams(means + 1.0)
    posterior = conjugate(family).prior(start, prior)
    if family is Poisson:  # as after 0.3 rows that sum to 0.3 means
        np.testing.assert_allclose(posterior.rate, np.full((2, 2), 0.3))
        np.testing.assert_allclose(posterior.shape, 0.3 * means)
    else:
        np.testing.assert_allclose(posterior.shape, np.full((2, 2), 1.3))
        np.testing.assert_allclose(posterior.rate, 0.3 * means)
    np.testing.assert_allclose(expected(family, posterior).means, means, rtol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_means_of_a_prior_are_above_zero(family: Positive) -> None:
    start = MeanParams(np.ones((2, 2)))
    for wrong in (0.0, -1.0):
        with pytest.raises(InvalidInputError, match="above 0"):
            conjugate(family).prior(start, Prior(means=[1.0, wrong]))
    found = conjugate(family).prior(start, Prior(means=[0.2, 0.9]))
    means = expected(family, found).means
    np.testing.assert_allclose(means, np.broadcast_to([0.2, 0.9], (2, 2)), rtol=1e-12)


# expectations


def test_expected_parameters_are_means_of_posteriors() -> None:
    posterior = random_posterior(1)
    a, b = posterior.shape, posterior.rate
    poisson = stats.gamma.mean(a, scale=1.0 / b)
    np.testing.assert_allclose(expected(Poisson, posterior).means, poisson, rtol=1e-12)
    waiting = stats.invgamma.mean(a, scale=b)
    np.testing.assert_allclose(expected(Exponential, posterior).means, waiting, rtol=1e-9)


def digamma_less_log(a: float) -> float:
    """By Binet's integral, whose terms do not cancel."""

    def integrand(t: float) -> float:
        return float(t / ((1.0 + (t / a) ** 2) * np.expm1(2.0 * np.pi * t)))

    whole = integrate.quad(integrand, 1e-300, 8.0, epsabs=1e-15)[0]
    return float(-0.5 / a - 2.0 * whole / a**2)


@pytest.mark.parametrize("shape", [3.0, 1e3, 2e6, 1e7, 1e8, 1e12])
def test_expected_logarithms_of_rates_are_exact_for_any_shape(shape: float) -> None:
    gap = digamma_less_log(shape)
    posterior = GammaPosterior(np.array([[shape]]), np.array([[2.0]]))
    # E[log p(x)] = E[log rate] - x E[rate] of an exponential distribution
    params, constant = expected_log_params(Exponential, posterior)
    np.testing.assert_allclose(params.means, [[2.0 / shape]], rtol=1e-14)
    rtol = 1e-15 * shape * 4.0 if shape < 1e6 else 1e-13  # where logarithms are subtracted
    np.testing.assert_allclose(constant, gap, rtol=max(rtol, 1e-12))
    params, constant = expected_log_params(Poisson, posterior)
    np.testing.assert_allclose(params.means, [[0.5 * shape * np.exp(gap)]], rtol=1e-14)
    np.testing.assert_allclose(constant, 0.5 * shape * np.expm1(gap), rtol=max(rtol, 1e-12))


@pytest.mark.parametrize("family", FAMILIES)
def test_constants_of_expected_log_densities_are_sums_over_columns(family: Positive) -> None:
    posterior = random_posterior(3)
    _, both = expected_log_params(family, posterior)
    parts = [
        expected_log_params(
            family, GammaPosterior(posterior.shape[:, j : j + 1], posterior.rate[:, j : j + 1])
        )[1]
        for j in range(2)
    ]
    np.testing.assert_allclose(both, parts[0] + parts[1], rtol=1e-12)


# rows


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_have_negative_binomial_and_lomax_distributions(family: Positive) -> None:
    posterior = random_posterior(4)
    a, b = posterior.shape, posterior.rate
    x = np.array([[0.0, 3.0], [7.0, 1.0]])
    found = conjugate(family).log_evidence(posterior, x, np.ones(2))
    if family is Poisson:
        exact = stats.nbinom.logpmf(x[:, None], a, b / (b + 1.0))
    else:
        exact = stats.lomax.logpdf(x[:, None], a, scale=b)
    np.testing.assert_allclose(found, exact.sum(axis=2), rtol=1e-10)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("weight", [1.0, 2.5])
def test_matched_posteriors_have_the_moments_of_both_cases(family: Positive, weight: float) -> None:
    posterior = random_posterior(2)
    row, c = np.array([3.0, 7.0]), np.array([0.2, 0.9, 0.5])
    found, _ = conjugate(family).match(posterior, row, weight, c)
    a, b = posterior.shape, posterior.rate
    more = (weight * row, weight) if family is Poisson else (weight, weight * row)
    without = stats.gamma(a, scale=1.0 / b)
    after = stats.gamma(a + more[0], scale=1.0 / (b + more[1]))
    share = c[:, None]
    first = share * after.mean() + (1.0 - share) * without.mean()
    second = share * after.moment(2) + (1.0 - share) * without.moment(2)
    matched = stats.gamma(found.shape, scale=1.0 / found.rate)
    np.testing.assert_allclose(matched.mean(), first, rtol=1e-10)
    np.testing.assert_allclose(matched.moment(2), second, rtol=1e-10)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_row_reaches_components_it_may_belong_to(family: Positive) -> None:
    shape, rate = np.full((3, 1), 2.0), np.full((3, 1), 1e-5)
    posterior = GammaPosterior(shape, rate if family is Poisson else 1.0 / rate)
    row = np.array([1e30 if family is Poisson else 1e-30])
    c = np.array([REACH, 0.99 * REACH, 0.5])
    found, _ = conjugate(family).match(posterior, row, 1e9, c)
    assert found.shape[1] == posterior.shape[1]
    assert found.rate[1] == posterior.rate[1]
    for k in (0, 2):
        assert found.shape[k] != posterior.shape[k]


# floors


@pytest.mark.parametrize("family", FAMILIES)
def test_means_on_their_floors_are_counted_once_they_are_moved(family: Positive) -> None:
    means = np.array([[2.0, 4.0], [0.01, 4.0], [0.01, 0.02], [6.0, 0.02]])
    blocks = (Block.of_means(np.ones(4), means),)
    params, n_degenerate = family(floor=0.1).maximize(blocks)
    floors = 0.1 * means.mean(axis=0)
    np.testing.assert_allclose(params.means, np.maximum(means, floors), rtol=1e-14)
    assert n_degenerate == 3
    on_floor = family(floor=0.1).degenerate(params, np.full(4, 0.25))
    # the mean of all is larger now than that of which the floors were a share
    np.testing.assert_array_equal(on_floor, means < floors)
    # alone, a component has the mean of all rows, which a floor of all of it does not change
    alone, n_degenerate = family(floor=1.0).maximize((Block.of_means(np.ones(1), means[:1]),))
    np.testing.assert_array_equal(alone.means, means[:1])
    assert n_degenerate == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_floors_are_shares(family: Positive) -> None:
    for floor in (0.0, 1.0):
        assert family(floor=floor).floor == floor
    for floor in (-0.1, 1.2):
        with pytest.raises(InvalidInputError, match="floor"):
            family(floor=floor)


# starts


def test_divergences_are_from_rows_to_centers() -> None:
    x, weight = np.array([[2.0, 5.0], [4.0, 1.0], [3.0, 9.0]]), np.array([1.0, 2.0, 4.0])
    centers = np.array([[1.0, 4.0], [6.0, 3.5]])
    moved = np.maximum(centers, 0.5 * np.average(x, axis=0, weights=weight))
    assert (moved != centers).any()  # one is nearer to zero than half the mean
    logs = x[:, None] * np.log(x[:, None] / moved)
    poisson = (logs - x[:, None] + moved).sum(axis=2)
    np.testing.assert_allclose(Poisson().divergence(x, centers, weight), poisson, rtol=1e-12)
    ratio = x[:, None] / centers
    exponential = (ratio - np.log(ratio) - 1.0).sum(axis=2)
    np.testing.assert_allclose(Exponential().divergence(x, centers, weight), exponential)
