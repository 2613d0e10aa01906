"""Conjugate posteriors against SciPy's distributions and textbook sums over raw rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import digamma

from mixfold.core.conjugate import Prior
from mixfold.core.errors import InvalidInputError
from mixfold.core.statistics import Block, pack
from mixfold.families._gamma_rates import ExponentialRates, GammaPosterior, PoissonRates
from mixfold.families._gaussian_params import GaussianParams
from mixfold.families._normal_gamma import NormalGamma
from mixfold.families._normal_wishart import NormalWishart, NormalWishartPosterior, updated
from mixfold.families.gaussian import Gaussian

K, D = 2, 3
W = np.array([0.4, 0.6])  # of components
RNG = np.random.default_rng(3)
ROWS = RNG.normal(size=(7, D)) + np.array([1.0, -2.0, 0.5])
SHARES = RNG.dirichlet(np.ones(K), size=7)  # of rows in components
COUNTS = RNG.poisson(3.0, size=(7, D)).astype(np.float64)
GAMMA = GammaPosterior(RNG.uniform(2.5, 6.0, (K, D)), RNG.uniform(0.5, 2.0, (K, D)))


def full(reg_covar: float = 0.0) -> NormalWishart:
    return NormalWishart(Gaussian("full", reg_covar=reg_covar))


def diagonal(reg_covar: float = 0.0) -> NormalGamma:
    return NormalGamma(Gaussian("diag", reg_covar=reg_covar))


def wishart() -> NormalWishartPosterior:
    rng = np.random.default_rng(5)
    root = np.tril(rng.normal(size=(K, D, D)))
    root[:, np.arange(D), np.arange(D)] = rng.uniform(1.0, 2.0, (K, D))
    return NormalWishartPosterior(
        rng.normal(size=(K, D)), np.array([0.7, 3.0]), np.array([6.0, 9.5]), root
    )


def columns() -> NormalWishartPosterior:
    rng = np.random.default_rng(6)
    return NormalWishartPosterior(
        rng.normal(size=(K, D)),
        rng.uniform(0.5, 3.0, (K, D)),
        rng.uniform(3.5, 8.0, (K, D)),
        rng.uniform(0.5, 2.0, (K, D)),
    )


def block(x: np.ndarray, is_full: bool) -> Block:
    """Weights, means and scatter about the means, of rows with shares."""
    weight = SHARES.sum(axis=0)
    mean = SHARES.T @ x / weight[:, None]
    scatter = []
    for k in range(K):
        e = x - mean[k]
        s = (SHARES[:, k, None, None] * e[:, :, None] * e[:, None, :]).sum(axis=0) / weight[k]
        scatter.append(s)
    s = np.array(scatter)
    return Block(weight, mean, pack(s) if is_full else np.diagonal(s, axis1=1, axis2=2).copy())


def test_full_predictive_densities() -> None:
    p = wishart()
    found = full().log_evidence(p, ROWS, np.ones(len(ROWS)))
    for k in range(K):
        freedom = p.nu[k] - D + 1.0
        shape = p.scale[k] @ p.scale[k].T * (p.kappa[k] + 1.0) / (p.kappa[k] * freedom)
        exact = stats.multivariate_t(p.mean[k], shape, freedom).logpdf(ROWS)
        np.testing.assert_allclose(found[:, k], exact, rtol=1e-10)


def test_diagonal_predictive_densities() -> None:
    p = columns()
    found = diagonal().log_evidence(p, ROWS, np.ones(len(ROWS)))
    scale = p.scale * np.sqrt((p.kappa + 1.0) / (p.kappa * p.nu))
    exact = stats.t(p.nu, p.mean, scale).logpdf(ROWS[:, None]).sum(axis=2)
    np.testing.assert_allclose(found, exact, rtol=1e-10)


@pytest.mark.parametrize("weight", [0.4, 1.0, 2.5])
def test_evidence_of_weighted_rows(weight: float) -> None:
    """E[p(x)^weight] by quadrature over the precision, where the mean integrates in closed form."""
    p, x = columns(), ROWS[0]
    found = diagonal().log_evidence(p, x[None], np.array([weight]))[0]
    for k in range(K):
        total = 0.0
        for j in range(D):
            kappa, nu, v = p.kappa[k, j], p.nu[k, j], p.scale[k, j] ** 2
            e2 = (x[j] - p.mean[k, j]) ** 2
            beta = kappa * weight / (kappa + weight)

            precision = np.linspace(1e-9, 200.0 / v, 20_001)
            power = (precision / (2.0 * np.pi)) ** (0.5 * weight)
            given = power * np.exp(-0.5 * beta * precision * e2) * np.sqrt(kappa / (kappa + weight))
            values = given * stats.gamma.pdf(precision, 0.5 * nu, 0.0, 2.0 / v)
            total += np.log(integrate.simpson(values, x=precision))
        assert found[k] == pytest.approx(total, rel=1e-5)


def test_full_posterior_is_that_of_raw_sums() -> None:
    p = wishart()
    after = full().absorb(p, (block(ROWS, True),))
    for k in range(K):
        n, total = SHARES[:, k].sum(), SHARES[:, k] @ ROWS
        second = (SHARES[:, k, None] * ROWS).T @ ROWS
        kappa = p.kappa[k] + n
        mean = (p.kappa[k] * p.mean[k] + total) / kappa
        v = p.scale[k] @ p.scale[k].T + second
        v += p.kappa[k] * np.outer(p.mean[k], p.mean[k]) - kappa * np.outer(mean, mean)
        np.testing.assert_allclose(after.mean[k], mean, rtol=1e-12)
        np.testing.assert_allclose(after.scale[k] @ after.scale[k].T, v, rtol=1e-10)
        np.testing.assert_allclose([after.kappa[k], after.nu[k]], [kappa, p.nu[k] + n], rtol=1e-14)


def test_diagonal_posterior_is_that_of_raw_sums() -> None:
    p = columns()
    after = diagonal().absorb(p, (block(ROWS, False),))
    n = SHARES.sum(axis=0)[:, None]
    kappa = p.kappa + n
    mean = (p.kappa * p.mean + SHARES.T @ ROWS) / kappa
    v = p.scale**2 + SHARES.T @ ROWS**2 + p.kappa * p.mean**2 - kappa * mean**2
    np.testing.assert_allclose(after.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(after.scale**2, v, rtol=1e-10)
    np.testing.assert_allclose(after.kappa, kappa, rtol=1e-14)
    np.testing.assert_allclose(after.nu, p.nu + n, rtol=1e-14)


def test_posteriors_of_rates_are_those_of_raw_sums() -> None:
    n = SHARES.sum(axis=0)[:, None] * np.ones((K, D))
    counts = PoissonRates().absorb(GAMMA, (block(COUNTS, False),))
    np.testing.assert_allclose(counts.shape, GAMMA.shape + SHARES.T @ COUNTS, rtol=1e-13)
    np.testing.assert_allclose(counts.rate, GAMMA.rate + n, rtol=1e-13)
    waits = ExponentialRates().absorb(GAMMA, (block(COUNTS, False),))
    np.testing.assert_allclose(waits.shape, GAMMA.shape + n, rtol=1e-13)
    np.testing.assert_allclose(waits.rate, GAMMA.rate + SHARES.T @ COUNTS, rtol=1e-13)


@pytest.mark.parametrize("reg_covar", [0.0, 0.3])
def test_expected_covariances(reg_covar: float) -> None:
    """The mean of an inverse Wishart distribution, and reg_covar on its diagonal."""
    p, q = wishart(), columns()
    dense = full(reg_covar).expected(p, W)
    for k in range(K):
        mean = stats.invwishart(p.nu[k], p.scale[k] @ p.scale[k].T).mean()
        found = dense.scale[k] @ dense.scale[k].T
        np.testing.assert_allclose(found, mean + reg_covar * np.eye(D), rtol=1e-10)
    variances = stats.invgamma(0.5 * q.nu, scale=0.5 * q.scale**2).mean()
    columnwise = diagonal(reg_covar).expected(q, W)
    np.testing.assert_allclose(columnwise.scale**2, variances + reg_covar, rtol=1e-10)
    np.testing.assert_array_equal(columnwise.means, q.mean)


def test_expected_log_densities() -> None:
    x, p, q = ROWS[0], wishart(), columns()
    params, gap = full().expected_log_params(p, W)
    for k in range(K):
        v = p.scale[k] @ p.scale[k].T
        log_det = sum(digamma(0.5 * (p.nu[k] - j)) for j in range(D))
        log_det += D * np.log(2.0) - np.linalg.slogdet(v)[1]
        e = x - p.mean[k]
        square = D / p.kappa[k] + p.nu[k] * e @ np.linalg.solve(v, e)
        expected = 0.5 * (log_det - D * np.log(2.0 * np.pi) - square)
        covariance = params.scale[k] @ params.scale[k].T
        found = stats.multivariate_normal(params.means[k], covariance).logpdf(x) + gap[k]
        assert found == pytest.approx(expected, rel=1e-10)
    columnwise, gap = diagonal().expected_log_params(q, W)
    log_precision = digamma(0.5 * q.nu) - np.log(0.5 * q.scale**2)
    square = 1.0 / q.kappa + q.nu * (x - q.mean) ** 2 / q.scale**2
    terms = 0.5 * (log_precision - np.log(2.0 * np.pi) - square)
    found = stats.norm(columnwise.means, columnwise.scale).logpdf(x).sum(axis=1) + gap
    np.testing.assert_allclose(found, terms.sum(axis=1), rtol=1e-10)


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_intervals(level: float) -> None:
    p, q, tails = wishart(), columns(), np.array([0.5 - level / 2, 0.5 + level / 2])
    reg_covar = 0.2
    dense = full(reg_covar).intervals(p, W, level)
    for k in range(K):
        freedom = p.nu[k] - D + 1.0
        v = np.diagonal(p.scale[k] @ p.scale[k].T)
        for side in (0, 1):
            mean = stats.t(freedom, p.mean[k], np.sqrt(v / (p.kappa[k] * freedom)))
            np.testing.assert_allclose(dense["means"][side][k], mean.ppf(tails[side]), rtol=1e-9)
            variance = stats.invgamma(0.5 * freedom, scale=0.5 * v).ppf(tails[side]) + reg_covar
            found = np.diagonal(dense["covariances"][side][k])
            np.testing.assert_allclose(found, variance, rtol=1e-9)
    columnwise = diagonal(reg_covar).intervals(q, W, level)
    for side in (0, 1):
        mean = stats.t(q.nu, q.mean, q.scale / np.sqrt(q.kappa * q.nu)).ppf(tails[side])
        np.testing.assert_allclose(columnwise["means"][side], mean, rtol=1e-9)
        variance = stats.invgamma(0.5 * q.nu, scale=0.5 * q.scale**2).ppf(tails[side])
        np.testing.assert_allclose(columnwise["covariances"][side], variance + reg_covar, rtol=1e-9)
        rate = stats.gamma(GAMMA.shape, scale=1.0 / GAMMA.rate)
        counts = PoissonRates().intervals(GAMMA, W, level)["means"][side]
        np.testing.assert_allclose(counts, rate.ppf(tails[side]), rtol=1e-9)
        waits = ExponentialRates().intervals(GAMMA, W, level)["means"][side]
        np.testing.assert_allclose(waits, 1.0 / rate.ppf(tails[1 - side]), rtol=1e-9)


def test_intervals_of_correlations_by_draws() -> None:
    """Quantiles of covariances between columns, against SciPy's inverse Wishart draws."""
    p = wishart()
    low, high = full().intervals(p, W, 0.8)["covariances"]
    for k in range(K):
        v = p.scale[k] @ p.scale[k].T
        draws = stats.invwishart(p.nu[k], v).rvs(4000, random_state=1)
        for end, level in ((low, 0.1), (high, 0.9)):
            for i, j in ((0, 1), (0, 2), (1, 2)):
                assert end[k, i, j] == end[k, j, i]
                share = (draws[:, i, j] < end[k, i, j]).mean()
                assert share == pytest.approx(level, abs=0.03)


def test_updated_factor() -> None:
    factor, v = wishart().scale[0], np.array([0.3, -1.2, 2.0])
    found = updated(factor, v)
    expected = np.linalg.cholesky(factor @ factor.T + np.outer(v, v))
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-14)


def gaussian(is_full: bool) -> GaussianParams:
    p = wishart() if is_full else columns()
    return GaussianParams(p.mean, p.scale)


@pytest.mark.parametrize("is_full", [False, True])
def test_prior_about_a_start(is_full: bool) -> None:
    """Its covariance has the mean given, or that of the start; three degrees above d by default."""
    conjugate: Any = full() if is_full else diagonal()
    d, params = D if is_full else 1, gaussian(is_full)
    default = conjugate.prior(params, Prior())
    assert (default.nu == d + 3.0).all()
    assert (default.kappa == Prior().kappa).all()
    np.testing.assert_array_equal(default.mean, params.means)
    np.testing.assert_allclose(conjugate.expected(default, W).scale, params.scale, rtol=1e-12)
    wanted = np.diag([1.0, 4.0, 9.0]) if is_full else np.array([1.0, 4.0, 9.0])
    own = Prior(means=[1.0, 2.0, 3.0], covariance=wanted, kappa=2.0, nu=d + 1.5)
    given = conjugate.prior(params, own)
    np.testing.assert_array_equal(given.mean, [[1.0, 2.0, 3.0]] * K)
    factor = conjugate.expected(given, W).scale
    square = factor @ factor.swapaxes(1, 2) if is_full else factor**2
    np.testing.assert_allclose(square, [wanted] * K, rtol=1e-12)
    for nu in (d + 1.0, d + 0.5):
        with pytest.raises(InvalidInputError, match="nu of the prior"):
            conjugate.prior(params, Prior(nu=nu))
    with pytest.raises(InvalidInputError, match="covariance of the prior"):
        conjugate.prior(params, Prior(covariance=0.0 * wanted))


@pytest.mark.parametrize("is_full", [False, True])
def test_posteriors_outside_their_domain(is_full: bool) -> None:
    conjugate: Any = full() if is_full else diagonal()
    good, d = (wishart(), D) if is_full else (columns(), 1)
    conjugate.check(good, K, D)
    conjugate.check(replace(good, nu=np.full_like(good.nu, d + 1.001)), K, D)
    for wrong, message in (
        (replace(good, nu=np.full_like(good.nu, d + 1.0)), "nu is"),
        (replace(good, kappa=0.0 * good.kappa), "kappa"),
        (replace(good, kappa=np.full_like(good.kappa, np.inf)), "kappa"),
        (replace(good, mean=good.mean[:1]), "mean"),
        (replace(good, mean=np.full_like(good.mean, np.nan)), "mean"),
        (replace(good, scale=0.0 * good.scale), "scale"),
        (replace(good, scale=good.scale[:1]), "scale"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            conjugate.check(wrong, K, D)
    for wrong_rates in (
        GammaPosterior(0.0 * GAMMA.shape, GAMMA.rate),
        GammaPosterior(GAMMA.shape, 0.0 * GAMMA.rate),
        GammaPosterior(GAMMA.shape[:1], GAMMA.rate),
        GammaPosterior(GAMMA.shape, np.full_like(GAMMA.rate, np.inf)),
    ):
        with pytest.raises(InvalidInputError, match=r"shape|rate"):
            PoissonRates().check(wrong_rates, K, D)


@pytest.mark.parametrize("is_full", [False, True])
def test_variances_are_not_below_their_floors(is_full: bool) -> None:
    """A fraction of the variance of a column over all components, of its mean and within them."""
    share = 0.1
    own = Gaussian("full" if is_full else "diag", floor=share, reg_covar=0.0)
    conjugate: Any = own.conjugate
    good = wishart() if is_full else columns()
    factor = good.scale.copy()
    if is_full:
        factor[1] = np.diag([1e-3, 1.0, 1.0])
        variances = np.array([np.diagonal(f @ f.T) for f in factor])
    else:
        factor[1, 0] = 1e-3
        variances = factor**2
    d = D if is_full else 1
    degrees = (good.nu - d - 1.0)[:, None] if is_full else good.nu - d - 1.0
    variances = variances / degrees
    centre = W @ good.mean
    floor = share * (W @ (variances + (good.mean - centre) ** 2))
    found = conjugate.expected(replace(good, scale=factor), W).scale
    square = found @ found.swapaxes(1, 2) if is_full else np.array([np.diag(f**2) for f in found])
    assert square[1, 0, 0] == pytest.approx(floor[0], rel=1e-6)
    np.testing.assert_allclose(square[0, 0, 0], variances[0, 0], rtol=1e-9)
    low, high = conjugate.intervals(replace(good, scale=factor), W, 0.9)["covariances"]
    ends = [np.diagonal(end, axis1=1, axis2=2) if is_full else end for end in (low, high)]
    assert ends[0][1, 0] == pytest.approx(ends[1][1, 0])
    assert ends[0][1, 0] == pytest.approx(floor[0], rel=share)
