"""Posteriors of Gaussian components against textbook formulae and scipy's distributions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from mixfold import Gaussian, Prior
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.families._normal_gamma import NormalGamma
from mixfold.families._normal_wishart import NormalWishart, NormalWishartPosterior
from mixfold.families.gaussian import GaussianParams

STRUCTURES = ["full", "diag"]
K, D = 3, 4


def conjugate(
    covariance: str, reg_covar: float = 0.0, floor: float = 0.0
) -> NormalWishart | NormalGamma:
    found = Gaussian(covariance, floor=floor, reg_covar=reg_covar).conjugate
    assert isinstance(found, NormalWishart | NormalGamma)
    return found


def equal_weights(posterior: NormalWishartPosterior) -> Array:
    return np.full(len(posterior.mean), 1.0 / len(posterior.mean))


def expected(covariance: str, posterior: NormalWishartPosterior) -> GaussianParams:
    return conjugate(covariance).expected(posterior, equal_weights(posterior))


def random_posterior(
    covariance: str, rng: np.random.Generator, k: int = K, d: int = D
) -> NormalWishartPosterior:
    """Any posterior in the domain."""
    size = (k,) if covariance == "full" else (k, d)
    least = d + 1.0 if covariance == "full" else 2.0
    factor = rng.uniform(0.5, 2.0, size=(k, d))
    if covariance == "full":
        factor = np.tril(rng.normal(size=(k, d, d)), -1) + factor[:, :, None] * np.eye(d)
    kappa, nu = rng.uniform(0.3, 5.0, size=size), least + rng.uniform(0.5, 9.0, size=size)
    return NormalWishartPosterior(rng.normal(size=(k, d)), kappa, nu, factor)


def squares(posterior: NormalWishartPosterior) -> Array:
    """V: matrices, or variances."""
    factor = posterior.scale
    return factor @ factor.swapaxes(1, 2) if factor.ndim == 3 else np.square(factor)


def squares_of(factor: Array) -> Array:
    return np.asarray(factor @ factor.T)


def outer(covariance: str, a: Array) -> Array:
    return a[:, :, None] * a[:, None, :] if covariance == "full" else np.square(a)


def as_wide(a: Array, like: Array) -> Array:
    return a.reshape(a.shape + (1,) * (like.ndim - a.ndim))


# priors


@pytest.mark.parametrize("covariance", STRUCTURES)
@pytest.mark.parametrize("spare", [None, 1.2, 7.5])
@pytest.mark.parametrize("given", [False, True])
def test_a_prior_has_the_mean_and_the_covariance_it_is_about(
    covariance: str, spare: float | None, given: bool
) -> None:
    rng = np.random.default_rng(1)
    params = Gaussian(covariance).example(K, D, rng)
    free = D if covariance == "full" else 1  # columns that share degrees of freedom
    nu = free + (3.0 if spare is None else spare)
    prior = Prior(kappa=0.3, nu=None if spare is None else nu)
    if given:
        params = GaussianParams(rng.normal(size=(K, D)), 0.4 * params.scale)
        matrices = Gaussian(covariance).covariances(params)
        prior = replace(prior, means=params.means, covariance=matrices)
    start = Gaussian(covariance).example(K, D, rng) if given else params
    posterior = conjugate(covariance).prior(start, prior)
    np.testing.assert_array_equal(posterior.nu, np.full(posterior.nu.shape, nu))
    np.testing.assert_array_equal(posterior.kappa, np.full(posterior.nu.shape, 0.3))
    np.testing.assert_array_equal(posterior.mean, params.means)
    # the mean of an inverse Wishart distribution is V / (nu - d - 1)
    wide = as_wide(posterior.nu - free - 1.0, params.scale)
    variance = squares(posterior) / wide
    wanted = squares(NormalWishartPosterior(params.means, wide, wide, params.scale))
    np.testing.assert_allclose(variance, wanted, rtol=1e-12, atol=1e-12)
    found = expected(covariance, posterior)
    np.testing.assert_array_equal(found.means, params.means)
    np.testing.assert_allclose(found.scale, params.scale, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("covariance", STRUCTURES)
def test_degrees_of_freedom_leave_the_covariance_a_mean(covariance: str) -> None:
    free = D if covariance == "full" else 1
    params = Gaussian(covariance).example(K, D, np.random.default_rng(1))
    learner = conjugate(covariance)
    for nu in (free + 1.0, free + 0.5):
        with pytest.raises(InvalidInputError, match="nu of the prior"):
            learner.prior(params, Prior(nu=nu))
    good = learner.prior(params, Prior(nu=free + 1.01))
    learner.check(good, K, D)
    for wrong in (free + 1.0, free + 0.5, free - 0.5):
        one_wrong = good.nu.copy()
        one_wrong.flat[-1] = wrong
        with pytest.raises(InvalidInputError, match="nu is"):
            learner.check(replace(good, nu=one_wrong), K, D)


def test_variances_of_a_prior_are_above_zero() -> None:
    params = Gaussian("diag").example(K, D, np.random.default_rng(1))
    learner = conjugate("diag")
    for wrong in (0.0, -1.0):
        with pytest.raises(InvalidInputError, match="variances above 0"):
            learner.prior(params, Prior(covariance=[1.0, 1.0, wrong, 2.0]))
    posterior = learner.prior(params, Prior(covariance=[1e-9, 0.5, 1.0, 2.0]))
    found = np.square(expected("diag", posterior).scale)
    np.testing.assert_allclose(found, np.broadcast_to([1e-9, 0.5, 1.0, 2.0], (K, D)))


# limits


@pytest.mark.parametrize("covariance", STRUCTURES)
def test_estimated_variances_are_not_below_a_share_of_that_of_all_rows(covariance: str) -> None:
    rng = np.random.default_rng(12)
    posterior = random_posterior(covariance, rng)
    weights = np.array([0.2, 0.5, 0.3])
    free = D if covariance == "full" else 1
    learner = conjugate(covariance, reg_covar=0.01, floor=0.15)
    v = squares(posterior)
    for degrees, found in (
        (posterior.nu - free - 1.0, learner.expected(posterior, weights)),
        (posterior.nu, learner.expected_log_params(posterior, weights)[0]),
    ):
        variance = v / as_wide(degrees, v) + 0.01 * (np.eye(D) if covariance == "full" else 1.0)
        diagonal = variance
        if covariance == "full":
            diagonal = np.diagonal(variance, axis1=1, axis2=2)
        floor = 0.15 * (np.average(diagonal + np.square(posterior.mean), axis=0, weights=weights))
        floor -= 0.15 * np.square(np.average(posterior.mean, axis=0, weights=weights))
        if covariance == "diag":
            assert (diagonal < floor).any()
            np.testing.assert_allclose(np.square(found.scale), np.maximum(variance, floor))
            continue
        for k in range(K):
            pivots = np.square(np.diag(found.scale[k]))
            free_pivots = np.square(np.diag(np.linalg.cholesky(variance[k])))
            if (free_pivots > floor).all():
                np.testing.assert_allclose(squares_of(found.scale[k]), variance[k], rtol=1e-9)
            assert (pivots > (1.0 - 1e-12) * floor).all()


@pytest.mark.parametrize("covariance", STRUCTURES)
def test_intervals_of_variances_end_at_the_floors_of_estimates(covariance: str) -> None:
    posterior = random_posterior(covariance, np.random.default_rng(13))
    weights = np.array([0.2, 0.5, 0.3])
    learner = conjugate(covariance, floor=0.2)
    v, freedom = squares(posterior), posterior.nu
    means, factor = posterior.mean, learner.expected(posterior, weights).scale
    estimates = np.square(factor)
    if covariance == "full":
        freedom = np.repeat(posterior.nu[:, None] - (D - 1.0), D, axis=1)
        v, estimates = np.diagonal(v, axis1=1, axis2=2), estimates.sum(axis=2)
    floor = 0.2 * (weights @ (estimates + np.square(means - weights @ means)))
    ends = learner.intervals(posterior, weights, 0.8)["covariances"]
    for end, tail in zip(ends, (0.1, 0.9), strict=True):
        exact = stats.invgamma.ppf(tail, 0.5 * freedom, scale=0.5 * v)
        found = np.diagonal(end, axis1=1, axis2=2) if covariance == "full" else end
        np.testing.assert_allclose(found, np.maximum(exact, floor), rtol=1e-9)
        assert tail > 0.5 or (exact < floor).any()  # some ends are floors


# joining


def natural_sum(
    covariance: str, before: NormalWishartPosterior, parts: list[NormalWishartPosterior]
) -> tuple[Array, Array, Array, Array]:
    """Mean, kappa, nu and V: natural parameters are kappa, kappa m, nu - d and V + kappa mm'."""
    free = D if covariance == "full" else 1
    kept = [np.minimum(p.kappa / before.kappa, 1.0) for p in parts]
    kept += [np.minimum((p.nu - free) / (before.nu - free), 1.0) for p in parts]
    share = np.min(kept, axis=0)
    more = len(parts) - 1
    kappa = sum(p.kappa for p in parts) - more * share * before.kappa
    nu = free + sum(p.nu - free for p in parts) - more * share * (before.nu - free)
    # of what is known before, the share that is held is taken off about the mean of before
    wide = as_wide(kappa, before.mean)
    linear = sum(as_wide(p.kappa, p.mean) * (p.mean - before.mean) for p in parts)
    mean = before.mean + linear / wide

    def second(p: NormalWishartPosterior) -> Array:
        v = squares(p)
        return np.asarray(v + as_wide(p.kappa, v) * outer(covariance, p.mean - mean))

    taken = as_wide(more * share, squares(before)) * second(before)
    return mean, kappa, nu, np.asarray(sum(second(p) for p in parts) - taken)


@pytest.mark.parametrize("covariance", STRUCTURES)
@pytest.mark.parametrize("unit", [1.0, 1e-12])
def test_joined_posteriors_have_the_sum_of_natural_parameters(covariance: str, unit: float) -> None:
    rng = np.random.default_rng(2)
    before = random_posterior(covariance, rng)
    before = replace(before, mean=unit * before.mean, scale=unit * before.scale)
    # one part knows more; one knows less of means, one of covariances
    changes = [(1.5, 1.4), (0.7, 1.1), (1.2, 0.9)]
    parts = [
        NormalWishartPosterior(
            before.mean + 0.1 * unit * rng.normal(size=(K, D)),
            a * before.kappa,
            b * before.nu + 0.1,
            2.0 * before.scale,
        )
        for a, b in changes
    ]
    for some in (parts[:2], parts[::2], parts, parts[:1]):
        mean, kappa, nu, v = natural_sum(covariance, before, some)
        found = conjugate(covariance).combine(before, some)
        np.testing.assert_allclose(found.mean, mean, rtol=1e-10)
        np.testing.assert_allclose(found.kappa, kappa, rtol=1e-12)
        np.testing.assert_allclose(found.nu, nu, rtol=1e-12)
        np.testing.assert_allclose(squares(found) / unit**2, v / unit**2, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("covariance", STRUCTURES)
def test_joined_posteriors_stay_positive_definite(covariance: str) -> None:
    rng = np.random.default_rng(3)
    before = random_posterior(covariance, rng, 2, 1)
    before = replace(before, scale=np.array([3.0, 1e3]).reshape(before.scale.shape))
    less = np.array([0.5, 2.0]).reshape(before.scale.shape)
    part = replace(before, scale=less * before.scale)
    found = squares(conjugate(covariance).combine(before, [part, part])).ravel()
    # 2 (V / 4) - V is below zero: a tiny fraction of the largest V is kept
    largest = (2.0 * 4.0 - 1.0) * 1e6
    np.testing.assert_allclose(found, [1e-14 * largest, largest], rtol=1e-9)


# intervals


@pytest.mark.parametrize("covariance", STRUCTURES)
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_are_quantiles_of_marginal_posteriors(covariance: str, level: float) -> None:
    posterior = random_posterior(covariance, np.random.default_rng(4))
    weights = equal_weights(posterior)
    found = conjugate(covariance, reg_covar=0.2).intervals(posterior, weights, level)
    freedom, kappa, v = posterior.nu, posterior.kappa, squares(posterior)
    if covariance == "full":
        # a block of an inverse Wishart matrix has as many degrees less as columns are left out
        freedom = np.repeat(posterior.nu[:, None] - (D - 1.0), D, axis=1)
        kappa, v = kappa[:, None], np.diagonal(v, axis1=1, axis2=2)
    for side, tail in enumerate((0.5 - 0.5 * level, 0.5 + 0.5 * level)):
        means = stats.t.ppf(tail, freedom, posterior.mean, np.sqrt(v / (kappa * freedom)))
        np.testing.assert_allclose(found["means"][side], means, rtol=1e-9)
        variances = found["covariances"][side]
        if covariance == "full":
            variances = np.diagonal(variances, axis1=1, axis2=2)
        exact = stats.invgamma.ppf(tail, 0.5 * freedom, scale=0.5 * v)
        np.testing.assert_allclose(variances, exact + 0.2, rtol=1e-9)


def test_intervals_of_covariances_are_those_of_inverse_wishart_matrices() -> None:
    rng = np.random.default_rng(5)
    posterior = random_posterior("full", rng, 2, 3)
    posterior = replace(posterior, nu=np.array([5.0, 9.0]))
    found = conjugate("full").intervals(posterior, equal_weights(posterior), 0.6)
    low, high = found["covariances"]
    for k in range(2):
        v = squares(posterior)[k]
        draws = stats.invwishart.rvs(posterior.nu[k], v, size=20_000, random_state=rng)
        exact = np.quantile(draws, [0.2, 0.8], axis=0)
        width = exact[1] - exact[0]
        assert (np.abs(low[k] - exact[0]) < 0.12 * width).all()
        assert (np.abs(high[k] - exact[1]) < 0.12 * width).all()


# densities


@pytest.mark.parametrize("covariance", STRUCTURES)
def test_rows_have_t_distributions(covariance: str) -> None:
    rng = np.random.default_rng(8)
    posterior = random_posterior(covariance, rng)
    x = rng.normal(size=(7, D))
    found = conjugate(covariance).log_evidence(posterior, x, np.ones(7))
    v, kappa, nu = squares(posterior), posterior.kappa, posterior.nu
    for k in range(K):
        if covariance == "full":
            freedom = nu[k] - D + 1.0
            shape = v[k] * (kappa[k] + 1.0) / (kappa[k] * freedom)
            exact = stats.multivariate_t.logpdf(x, posterior.mean[k], shape, freedom)
        else:
            scale = np.sqrt(v[k] * (kappa[k] + 1.0) / (kappa[k] * nu[k]))
            exact = stats.t.logpdf(x, nu[k], posterior.mean[k], scale).sum(axis=1)
        np.testing.assert_allclose(found[:, k], exact, rtol=1e-10)


@pytest.mark.parametrize("covariance", STRUCTURES)
def test_expected_log_densities_are_means_over_draws(covariance: str) -> None:
    rng = np.random.default_rng(9)
    posterior = random_posterior(covariance, rng, 2, 2)
    x = rng.normal(size=(3, 2))
    weights = equal_weights(posterior)
    params, constant = conjugate(covariance).expected_log_params(posterior, weights)
    found = Gaussian(covariance).log_density(params, x) + constant
    v, kappa, nu = squares(posterior), posterior.kappa, posterior.nu
    size = 40_000
    for k in range(2):
        if covariance == "full":
            precision = stats.wishart.rvs(nu[k], np.linalg.inv(v[k]), size, random_state=rng)
        else:
            precision = rng.gamma(0.5 * nu[k], 2.0 / v[k], size=(size, 2))[:, :, None] * np.eye(2)
        root = np.linalg.cholesky(np.linalg.inv(precision))
        scale = np.sqrt(np.broadcast_to(kappa[k], 2))[:, None]
        means = posterior.mean[k] + (root @ rng.normal(size=(size, 2, 1)) / scale)[..., 0]
        away = x[:, None] - means
        square = np.einsum("nsi,sij,nsj->ns", away, precision, away)
        logs = 0.5 * np.linalg.slogdet(precision)[1] - 0.5 * square - np.log(2.0 * np.pi)
        error = logs.std(axis=1) / np.sqrt(size)
        assert (np.abs(logs.mean(axis=1) - found[:, k]) < 5.0 * error).all()
