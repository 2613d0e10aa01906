"""Negative binomial components of estimated sizes, against statsmodels, scipy.stats and mpmath."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import digamma, gammaln, polygamma

from mixfold import EM, Mixture, NegativeBinomial, Poisson
from mixfold.backends.threads import Threads
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Rows
from mixfold.core.value import replace
from mixfold.families._gamma_ratios import log_gamma_ratio, log_rising_coefficient
from mixfold.families._negative_binomial_sizes import (
    FEWER,
    LARGEST_SIZE,
    LEAST_SIZE,
    NegativeBinomialParams,
    NegativeBinomialSizes,
    derivative_tables,
    next_sizes,
)
from mixfold.families.mean_params import MeanParams
from mixfold.models.mixture_model import MixtureModel, MixtureParams

EXACT = EM(tol=1e-14, max_iter=3000, accelerate=False)
FREE = NegativeBinomial(size=None)


def rows(size: float, mean: float, n: int = 600, seed: int = 0, d: int = 1) -> np.ndarray:
    drawn = stats.nbinom.rvs(size, size / (size + mean), size=(n, d), random_state=seed)
    return np.asarray(drawn, dtype=np.float64)


def at(mean: float, size: float) -> NegativeBinomialParams:
    return NegativeBinomialParams(np.array([[mean]]), np.array([[size]]))


# densities


@pytest.mark.parametrize("size", [1e-6, 0.01, 0.7, 3.0, 25.0, 1e3])
@pytest.mark.parametrize("mean", [1e-3, 0.5, 40.0, 1e5])
def test_densities_are_scipys(size: float, mean: float) -> None:
    x = np.array([0.0, 1.0, 2.0, 17.0, 300.0, 1e4])[:, None]
    expected = stats.nbinom.logpmf(x, size, size / (size + mean))
    # scipy subtracts values of gammaln, whose size its rounding errors have
    atol = 1e-10 + 1e-15 * np.abs(gammaln(x + size) + x * np.log1p(mean)).max()
    np.testing.assert_allclose(FREE.log_density(at(mean, size), x), expected, 1e-10, atol)


def test_densities_are_exact_for_large_sizes_and_counts() -> None:
    """Against 40 digits, where scipy's differences of logarithms lose half of theirs."""
    import mpmath

    with mpmath.workdps(40):
        for size in (1e-6, 0.3, 19.0, 21.0, 1e4, 1e6):
            for x in (0.0, 1.0, 5.0, 18.0, 20.0, 1e3, 1e6, 1e12):
                s, n, m = mpmath.mpf(size), mpmath.mpf(x), mpmath.mpf(7.5)
                exact = mpmath.loggamma(n + s) - mpmath.loggamma(s) - mpmath.loggamma(n + 1)
                exact += s * mpmath.log(s / (s + m)) + n * mpmath.log(m / (s + m))
                found = FREE.log_density(at(7.5, size), np.array([[x]]))
                np.testing.assert_allclose(found, float(exact), rtol=1e-12, atol=1e-12)


@settings(max_examples=200, deadline=None)
@given(a=st.floats(1e-6, 1e6), more=st.floats(1e-3, 1e6))
def test_ratios_of_gamma_functions(a: float, more: float) -> None:
    found = log_gamma_ratio(np.array([a]), more)
    exact = gammaln(a + more) - gammaln(a) - more * np.log(a)
    atol = 1e-14 * (np.abs(gammaln(a + more)) + np.abs(more * np.log(a)) + 10.0)
    np.testing.assert_allclose(found, exact, rtol=1e-10, atol=atol)


def test_coefficients_are_those_of_known_sizes() -> None:
    x = np.array([0.0, 1.0, 9.0, 1e4, 1e9, 1e60])[:, None]
    for size in (1e-6, 0.4, 5.0, 300.0):
        known = NegativeBinomial(size).log_base_measure(x)
        found = log_rising_coefficient(np.array([size]), x)[:, 0]
        np.testing.assert_allclose(found, known, rtol=1e-9, atol=1e-9)


# one component is the fit of statsmodels


@pytest.mark.parametrize(
    ("size", "mean"), [(0.2, 3.0), (2.0, 6.0), (5.0, 100.0), (40.0, 10.0), (1.0, 0.3)]
)
def test_one_component_is_the_fit_of_statsmodels(size: float, mean: float) -> None:
    from statsmodels.discrete.discrete_model import NegativeBinomial as Reference

    x = rows(size, mean, 2000)
    model = Mixture(FREE, 1, learner=EXACT).fit(x)
    reference = Reference(x[:, 0], np.ones(len(x))).fit(
        [np.log(mean), 1.0 / size], method="newton", disp=0, tol=1e-12, warn_convergence=False
    )
    assert model.means_[0, 0] == pytest.approx(x.mean(), rel=1e-12)
    assert model.score(x) == pytest.approx(reference.llf / len(x), abs=1e-9)
    assert model.sizes_[0, 0] == pytest.approx(1.0 / reference.params[1], rel=1e-6)
    p = model.sizes_ / (model.sizes_ + model.means_)
    np.testing.assert_allclose(model.probabilities_, p)


@pytest.mark.parametrize("size", [1e-3, 0.2, 2.0, 40.0])
def test_the_score_of_the_size_is_zero_after_few_passes(size: float) -> None:
    x = rows(size, 8.0, 2000)
    model = Mixture(FREE, 1, learner=EM(tol=0.0, max_iter=25, accelerate=False)).fit(x)
    s, m = model.sizes_[0, 0], x.mean()
    score = (digamma(x + s) - digamma(s)).mean() - np.log1p(m / s)
    information = (polygamma(1, s) - polygamma(1, x + s)).mean() - m / (s * (s + m))
    assert abs(score / information) < 1e-6 * s


@pytest.mark.parametrize("start", [1e-6, 1e-2, 1.0, 1e3, 1e6])
def test_sizes_are_found_from_any_start(start: float) -> None:
    x = rows(2.0, 8.0, 500)
    init = MixtureParams(np.ones(1), at(8.0, start))
    learner = EM(tol=0.0, max_iter=60, accelerate=False)
    found = Mixture(FREE, 1, init=init, learner=learner).fit(x)
    usual = Mixture(FREE, 1, learner=EXACT).fit(x)
    np.testing.assert_allclose(found.sizes_, usual.sizes_, rtol=1e-7)


def test_counts_that_vary_too_little_are_poisson_counts() -> None:
    x = np.random.default_rng(0).binomial(20, 0.5, size=(500, 1)).astype(float)
    model = Mixture(FREE, 1).fit(x)
    assert model.sizes_[0, 0] == pytest.approx(LARGEST_SIZE)
    assert model.n_degenerate_ == 0
    plain = Poisson().log_density(MeanParams(model.means_), x)
    np.testing.assert_allclose(model.score_samples(x), plain[:, 0], atol=1e-4)


def test_parameters_are_recovered_within_their_errors() -> None:
    """Most estimates are within two standard errors; these are those over the replications."""
    means, sizes = np.array([[2.0, 30.0], [25.0, 4.0]]), np.array([[3.0, 8.0], [2.0, 5.0]])
    found = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        labels = rng.integers(2, size=4000)
        x = FREE.sample(NegativeBinomialParams(means, sizes), labels, rng)
        model = Mixture(FREE, 2, random_state=0).fit(x)
        order = np.argsort(model.means_[:, 0])
        found.append(np.log([model.means_[order], model.sizes_[order]]).ravel())
    estimates, truth = np.array(found), np.log([means, sizes]).ravel()
    error = np.abs(estimates - truth) / estimates.std(axis=0, ddof=1)
    assert (error < 2.0).mean() > 0.85
    bias = np.abs(estimates.mean(axis=0) - truth) / estimates.std(axis=0, ddof=1) * np.sqrt(10)
    assert (bias < 4.0).all()


# EM


@pytest.mark.parametrize("seed", range(4))
def test_em_never_lowers_the_likelihood(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.concatenate([rows(0.1, 20.0, 100, seed, 2), rows(50.0, 5.0, 150, seed, 2)])
    x[0] = 1e9
    start = NegativeBinomialParams(
        rng.uniform(0.1, 40.0, (3, 2)), 10.0 ** rng.uniform(-5, 5, (3, 2))
    )
    model, learner = MixtureModel(FREE, 3, 2), EM(tol=0.0, accelerate=False)
    backend = Threads(model, 1)
    state = learner.init(backend, MixtureParams(np.full(3, 1.0 / 3.0), start))
    reached = -np.inf
    for _ in range(60):
        state, _ = learner.step(backend, state, Rows(x))
        state, infos = learner.end_pass(backend, state)
        assert infos[-1].log_likelihood >= reached - 1e-10 * abs(reached)
        reached = infos[-1].log_likelihood


@settings(max_examples=300, deadline=None)
@given(
    counts=st.lists(
        st.one_of(st.integers(0, 5), st.integers(0, 200), st.integers(0, 10**9)), min_size=1
    ),
    log_size=st.floats(np.log(LEAST_SIZE), np.log(LARGEST_SIZE)),
)
def test_a_step_of_the_size_never_lowers_the_likelihood(counts: list[int], log_size: float) -> None:
    x = np.array(counts, dtype=np.float64)[:, None]
    present = at(max(float(x.mean()), 1e-3), float(np.exp(log_size)))
    mean = FREE.expected_statistics(present, x)[0].mean(axis=0)
    sizes = next_sizes(present.means, mean[1:2][None], mean[2:3][None], present.sizes)
    assert (sizes >= 0.999 * LEAST_SIZE).all()
    assert (sizes <= 1.001 * LARGEST_SIZE).all()
    if x.any():
        # the mean of the rows is that of the parameters: only the size changes
        before, after = (
            FREE.log_density(replace(present, sizes=one), x).mean()
            for one in (present.sizes, sizes)
        )
        assert after >= before - 1e-9 * (1.0 + abs(before))


def test_statistics_are_derivatives_of_the_likelihood() -> None:
    x = np.array([[0.0], [1.0], [7.0], [400.0]])
    for size in (1e-4, 0.6, 3.0, 1e4):
        t = FREE.expected_statistics(at(5.0, size), x)[0]
        direct = [sum(1.0 / (size + j) for j in range(int(n))) for n in x[:, 0]]
        square = [sum(1.0 / (size + j) ** 2 for j in range(int(n))) for n in x[:, 0]]
        np.testing.assert_allclose(t[:, 0], x[:, 0])
        np.testing.assert_allclose(t[:, 1], direct, rtol=1e-10)
        np.testing.assert_allclose(t[:, 2], square, rtol=1e-8)
        np.testing.assert_allclose(t[:, 3], np.log(size))


# limits


@pytest.mark.parametrize("mean", [1e-60, 1.0, 1e60])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_densities_of_extreme_parameters_are_finite(mean: float, size: float) -> None:
    x = np.array([[0.0], [1.0], [0.99e60]])
    assert np.isfinite(FREE.log_density(at(mean, size), x)).all()
    drawn = FREE.sample(at(mean, size), np.zeros(50, dtype=int), np.random.default_rng(0))
    assert (np.isfinite(drawn) & (drawn == drawn.round()) & (drawn >= 0)).all()


def test_zeros_are_floored_and_counted() -> None:
    model = Mixture(FREE, 1).fit(np.zeros((20, 1)))
    assert model.n_degenerate_ > 0
    np.testing.assert_allclose(model.score_samples([[0.0]]), 0.0, atol=1e-12)


def test_it_is_a_negative_binomial_without_a_size() -> None:
    assert isinstance(FREE, NegativeBinomialSizes)
    assert repr(FREE) == "NegativeBinomial(size=None, floor=1e-08)"
    assert repr(NegativeBinomial()) == "NegativeBinomial(size=1.0, floor=1e-08)"
    with pytest.raises(InvalidInputError, match=r"use NegativeBinomial\(2.0\)"):
        NegativeBinomialSizes(2.0)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="floor is -1"):
        NegativeBinomial(None, floor=-1.0)


# few different counts, of which tables are made


@pytest.mark.parametrize("size", [1e-6, 0.3, 19.0, 1e4, 1e6])
@pytest.mark.parametrize("mean", [1e-3, 2.0, 900.0])
def test_tables_of_counts_are_exact(size: float, mean: float) -> None:
    import mpmath

    x, chosen = np.tile(np.arange(60.0), 5)[:, None], [0, 1, 2, 20, 59]
    found = FREE.log_density(at(mean, size), x)[chosen, 0]
    g, curvature = (table[0, 0, chosen] for table in derivative_tables(at(mean, size), 59))
    with mpmath.workdps(40):
        s, m = mpmath.mpf(size), mpmath.mpf(mean)
        for i, count in enumerate(chosen):
            logs = mpmath.loggamma(s + count) - mpmath.loggamma(s) - mpmath.loggamma(count + 1)
            logs += count * mpmath.log(m / (s + m)) + s * mpmath.log(s / (s + m))
            assert found[i] == pytest.approx(float(logs), rel=1e-13, abs=1e-13)
            first = mpmath.digamma(s + count) - mpmath.digamma(s)
            second = mpmath.psi(1, s) - mpmath.psi(1, s + count)
            assert g[i] == pytest.approx(float(first), rel=1e-13)
            assert curvature[i] == pytest.approx(float(second), rel=1e-13)


def test_sums_over_counts_are_those_over_rows() -> None:
    rng = np.random.default_rng(0)
    x, r = rows(1.5, 6.0, n=400, d=3), rng.normal(size=(400, 2))
    params = FREE.example(2, 3, rng)
    statistics = FREE.expected_statistics(params, x)
    assert x.max() < len(x) / FEWER
    expected = np.einsum("nk,knp->kp", r, statistics)
    found = FREE.sums(params, x, r)
    np.testing.assert_allclose(found[:, 0], r.sum(axis=0), rtol=1e-13)
    np.testing.assert_allclose(found[:, 1:], expected, rtol=1e-11, atol=1e-11)
