"""Student t components, against scipy.stats, plain EM, and Gaussians where degrees are large."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import digamma, softmax

from mixfold import EM, Gaussian, Mixture, StudentT
from mixfold.backends.threads import Threads
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Rows
from mixfold.families.student_t import (
    LEAST_DEGREES,
    MOST_DEGREES,
    StudentTParams,
    _degrees,
    robust_location,
)
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from scipy_fits import to_rounding

EXACT = EM(tol=1e-13, max_iter=20_000)
SIGMA = np.array([[2.0, 0.6], [0.6, 0.5]])


def rows(nu: float, n: int = 400, seed: int = 0) -> np.ndarray:
    drawn = stats.multivariate_t.rvs([1.0, -2.0], SIGMA, nu, n, random_state=seed)
    return np.asarray(drawn, dtype=np.float64)


def at(nu: float, d: int = 1, far: float = 0.0) -> StudentTParams:
    scale = np.linalg.cholesky(SIGMA)[None] if d == 2 else np.full((1, 1, 1), 2.0)
    return StudentTParams(np.full((1, d), far), scale, np.array([nu]))


# densities


@pytest.mark.parametrize("nu", [0.1, 0.7, 1.0, 2.0, 4.0, 30.0, 1e3, 1e5])
@pytest.mark.parametrize("d", [1, 2])
def test_densities_are_scipys(nu: float, d: int) -> None:
    x = np.array([-1e50, -1e6, -3.0, 0.0, 1e-8, 2.0, 40.0, 1e9, 1e59])[:, None] * np.ones(d)
    family = StudentT(degrees=nu)
    found = family.log_density(at(nu, d), x)
    np.testing.assert_allclose(found, family.scipy_log_density(at(nu, d), x), 1e-10, 1e-10)


def test_densities_of_many_degrees_do_not_cancel() -> None:
    """The logarithm of a t density is the Gaussian's plus terms of order 1 / nu."""
    x = np.linspace(-4.0, 4.0, 25)[:, None]
    found = StudentT(degrees=1e6).log_density(at(1e6), x)[:, 0]
    z = np.square(x[:, 0] / 2.0)
    gaussian = stats.norm.logpdf(x[:, 0], scale=2.0)
    np.testing.assert_allclose(found, gaussian + (z * z - 2.0 * z - 1.0) / 4e6, rtol=0, atol=1e-10)


def test_diagonal_scales_are_full_ones_without_correlations() -> None:
    params = StudentTParams(np.array([[1.0, 2.0]]), np.array([[0.5, 3.0]]), np.array([5.0]))
    full = StudentTParams(params.means, np.diag([0.5, 3.0])[None], params.degrees)
    x = rows(3.0)
    one = StudentT("diag", 5.0).log_density(params, x)
    np.testing.assert_allclose(one, StudentT("full", 5.0).log_density(full, x), rtol=1e-12)


@pytest.mark.parametrize("nu", [0.1, 1.5, 1e6])
def test_samples_have_the_distribution(nu: float) -> None:
    x = StudentT(degrees=nu).sample(at(nu), np.zeros(4000, dtype=int), np.random.default_rng(0))
    assert np.isfinite(x).all()
    assert stats.kstest(x[:, 0], stats.t(nu, scale=2.0).cdf).pvalue > 1e-3


# one component is scipy's fit


@pytest.mark.parametrize(("nu", "seed"), [(1.5, 0), (3.0, 1), (8.0, 2)])
def test_one_component_is_scipys_fit(nu: float, seed: int) -> None:
    x = stats.t.rvs(nu, 5.0, 2.0, size=800, random_state=seed)
    learner = EM(tol=0.0, max_iter=200, accelerate=True)  # gains end by rounding long before
    model = Mixture(StudentT(degrees=None), 1, learner=learner).fit(x[:, None])
    reference = stats.t.fit(x, nu, loc=5.0, scale=2.0, optimizer=to_rounding)
    found = [model.degrees_[0], model.means_[0, 0], np.sqrt(model.scale_matrices_[0, 0, 0])]
    np.testing.assert_allclose(found, reference, rtol=1e-6)


@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("degrees", [3.0, None])
def test_the_likelihood_has_no_slope_where_em_ends(covariance: str, degrees: float | None) -> None:
    """Numerical derivatives by all coordinates, which EM does not compute."""
    family, x = StudentT(covariance, degrees), rows(4.0)
    model = Mixture(family, 1, learner=EXACT).fit(x)
    params = model.params_.components
    coordinates = family.unconstrained(params)
    for i in range(coordinates.shape[1]):
        step = np.zeros_like(coordinates)
        step[0, i] = 1e-4
        up, down = (
            family.log_density(family.constrained(coordinates + s * step, params), x).mean()
            for s in (1, -1)
        )
        assert abs(up - down) / 2e-4 < 1e-5


def test_known_degrees_are_the_profile_of_estimated_ones() -> None:
    x = rows(4.0)
    free = Mixture(StudentT(degrees=None), 1, learner=EXACT).fit(x)
    nu = float(free.degrees_[0])
    fixed = Mixture(StudentT(degrees=nu), 1, learner=EXACT).fit(x)
    np.testing.assert_allclose(fixed.means_, free.means_, atol=1e-4)
    np.testing.assert_allclose(fixed.scale_matrices_, free.scale_matrices_, rtol=1e-3)
    for other in (0.8 * nu, 1.25 * nu):
        lower = Mixture(StudentT(degrees=other), 1, learner=EXACT).fit(x)
        assert lower.score(x) < fixed.score(x)


def test_parameters_are_recovered_within_their_errors() -> None:
    """Most estimates are within two standard errors, which are those over the replications."""
    found = []
    for seed in range(12):
        model = Mixture(StudentT(degrees=None), 1).fit(rows(5.0, 2000, seed))
        sigma = model.scale_matrices_[0]
        logs = np.log([model.degrees_[0], sigma[0, 0], sigma[1, 1]])
        found.append([*model.means_[0], *logs, sigma[0, 1]])
    estimates, truth = np.array(found), [1.0, -2.0, *np.log([5.0, 2.0, 0.5]), 0.6]
    error = np.abs(estimates - truth) / estimates.std(axis=0, ddof=1)
    assert (error < 2.0).mean() > 0.85
    bias = np.abs(estimates.mean(axis=0) - truth) / (estimates.std(axis=0, ddof=1) / np.sqrt(12))
    assert (bias < 4.0).all()


# mixtures


def plain_pass(
    x: np.ndarray, weights: np.ndarray, theta: list[Any], known: float | None
) -> tuple[np.ndarray, list[Any]]:
    """A pass of EM with parameter expansion, with raw moments and a scalar solver."""
    from scipy.optimize import brentq

    d = x.shape[1]
    pairs = zip(weights, theta, strict=True)
    joint = [np.log(w) + stats.multivariate_t(*one).logpdf(x) for w, one in pairs]
    r = softmax(np.stack(joint, axis=1), axis=1)
    found = []
    for k, (old, spread, nu) in enumerate(theta):
        away = x - old
        delta = np.einsum("ni,ij,nj->n", away, np.linalg.inv(spread), away)
        u, log_u = (nu + d) / (nu + delta), digamma((nu + d) / 2) - np.log((nu + delta) / 2)
        ru = r[:, k] * u
        mean = ru @ x / ru.sum()
        sigma = (ru[:, None] * (x - mean)).T @ (x - mean) / ru.sum()
        gap = np.log(np.average(u, weights=r[:, k])) - np.average(log_u, weights=r[:, k])

        def slope(a: float, gap: float = gap) -> float:
            return float(np.log(a) - digamma(a) - gap)

        found.append((mean, sigma, known or 2.0 * brentq(slope, 0.05, 5e5, xtol=1e-12)))
    return r.mean(axis=0), found


@pytest.mark.parametrize("known", [3.0, None])
def test_mixture_is_plain_em(known: float | None) -> None:
    x = np.concatenate([rows(3.0, 150), rows(9.0, 200, 1) @ np.diag([2.0, 1.0]) + [6.0, 3.0]])
    weights, nu = np.array([0.4, 0.6]), known or 6.0
    theta: list[Any] = [(np.zeros(2), np.eye(2), nu), (np.array([5.0, 1.0]), 2.0 * np.eye(2), nu)]
    start = StudentTParams(
        np.stack([one[0] for one in theta]),
        np.stack([np.linalg.cholesky(one[1]) for one in theta]),
        np.full(2, nu),
    )
    learner = EM(tol=0.0, max_iter=6, accelerate=False)
    family = StudentT(degrees=known)
    model = Mixture(family, 2, init=MixtureParams(weights, start), learner=learner).fit(x)
    for _ in range(6):
        weights, theta = plain_pass(x, weights, theta, known)
    np.testing.assert_allclose(model.weights_, weights, rtol=1e-8)
    np.testing.assert_allclose(model.means_, [one[0] for one in theta], rtol=1e-8)
    np.testing.assert_allclose(model.scale_matrices_, [one[1] for one in theta], rtol=1e-8)
    np.testing.assert_allclose(model.degrees_, [one[2] for one in theta], rtol=1e-7)


@pytest.mark.parametrize("degrees", [0.5, 2.0, 50.0, None])
@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_em_never_lowers_the_likelihood(covariance: str, degrees: float | None) -> None:
    x = np.concatenate([rows(1.0, 100), rows(20.0, 100, 1) + 4.0, [[1e6, 0.0], [3.0, -1e9]]])
    family = StudentT(covariance, degrees).with_limits(x)  # a fraction of 1e9 would be a limit
    model, rng = MixtureModel(family, 2, 2), np.random.default_rng(3)
    backend, learner = Threads(model, 1), EM(tol=0.0)
    state = learner.init(backend, MixtureParams(np.full(2, 0.5), family.example(2, 2, rng)))
    reached = -np.inf
    for _ in range(60):
        state, _ = learner.step(backend, state, Rows(x))
        state, infos = learner.end_pass(backend, state)
        now = infos[-1].log_likelihood
        assert now >= reached - 1e-10
        reached = now


@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("degrees", [1.0, 2.0])
def test_far_rows_do_not_move_the_clusters(covariance: str, degrees: float) -> None:
    """Also not if components are initialised from the rows."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(300, 2)), rng.normal(size=(300, 2)) + 12.0])
    far = np.concatenate([x, rng.uniform(-1e4, 1e4, size=(20, 2))])
    robust = Mixture(StudentT(covariance, degrees), 2, random_state=0).fit(far)
    centres = robust.means_[np.argsort(robust.means_[:, 0])]
    np.testing.assert_allclose(centres, [[0.0, 0.0], [12.0, 12.0]], atol=0.3)
    np.testing.assert_array_equal(robust.predict(x[:300]), robust.predict(x[:1])[0])


def test_many_degrees_are_nearly_gaussian() -> None:
    x = np.random.default_rng(2).normal(size=(500, 2)) @ np.array([[1.0, 0.5], [0.0, 2.0]])
    t = Mixture(StudentT(degrees=1e6), 1, learner=EXACT).fit(x)
    gaussian = Mixture(Gaussian(), 1).fit(x)
    np.testing.assert_allclose(t.means_, gaussian.means_, atol=1e-5)
    np.testing.assert_allclose(t.scale_matrices_, gaussian.covariances_, rtol=1e-4)
    free = Mixture(StudentT(degrees=None), 1, learner=EM(tol=0.0, max_iter=200)).fit(x)
    assert free.degrees_[0] > 20.0
    assert free.score(x) == pytest.approx(gaussian.score(x), abs=1e-2)


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_rows_far_from_zero_lose_no_digits(covariance: str) -> None:
    x = rows(3.0)
    family, far = StudentT(covariance, None), 2.0**30
    learner = EM(tol=0.0, max_iter=30, accelerate=False)
    start = family.maximize(family.blocks_of(x, np.ones((len(x), 1))))[0]
    moved = StudentTParams(start.means + far, start.scale, start.degrees)
    shifted = (x + far) - far  # what float64 can hold
    found = [
        Mixture(family, 1, init=MixtureParams(np.ones(1), one), learner=learner).fit(data)
        for one, data in ((start, shifted), (moved, x + far))
    ]
    np.testing.assert_allclose(found[1].means_ - far, found[0].means_, atol=1e-6)
    np.testing.assert_allclose(found[1].scale_matrices_, found[0].scale_matrices_, rtol=1e-6)
    np.testing.assert_allclose(found[1].degrees_, found[0].degrees_, rtol=1e-6)


def test_weights_are_repeated_rows() -> None:
    x, times = rows(3.0, 120), np.arange(120) % 4
    learner = EM(tol=0.0, max_iter=20)
    family = StudentT(degrees=None)
    one = Mixture(family, 1, learner=learner).fit(x, sample_weight=times.astype(float))
    other = Mixture(family, 1, learner=learner).fit(np.repeat(x, times, axis=0))
    np.testing.assert_allclose(one.degrees_, other.degrees_, rtol=1e-9)
    np.testing.assert_allclose(one.scale_matrices_, other.scale_matrices_, rtol=1e-9)


def test_initial_components_are_robust() -> None:
    x = np.random.default_rng(1).normal(size=(1000, 2)) * [1.0, 4.0]
    x[::20] = [1e6, -1e9]
    family = StudentT()
    params, _ = family.maximize(family.blocks_of(x, np.ones((len(x), 1))))
    np.testing.assert_allclose(params.means, 0.0, atol=0.5)
    scale = np.sqrt(family.attributes(params)["scale_matrices"][0, [0, 1], [0, 1]])
    assert (scale > 0.5 * np.array([1.0, 4.0])).all()
    assert (scale < 2.0 * np.array([1.0, 4.0])).all()


def test_robust_location_is_of_repeated_rows() -> None:
    rng = np.random.default_rng(4)
    x, times = rng.standard_t(2.0, size=(201, 2)), rng.integers(0, 4, size=201)
    found = robust_location(x, times.astype(float))
    repeated = np.repeat(x, times, axis=0)
    for one, other in zip(found, robust_location(repeated, np.ones(len(repeated))), strict=True):
        np.testing.assert_array_equal(one, other)
    quartiles = np.quantile(repeated, [0.25, 0.5, 0.75], axis=0, method="inverted_cdf")
    np.testing.assert_array_equal(found[0], quartiles[1])
    np.testing.assert_allclose(found[1], (quartiles[2] - quartiles[0]) / 1.349)


# limits


@settings(max_examples=200, deadline=None)
@given(above=st.floats(-1.0 + 1e-9, 1e6), gap=st.floats(0.0, 1e3), noise=st.floats(-1e-12, 1e-12))
def test_degrees_solve_their_equation(above: float, gap: float, noise: float) -> None:
    excess = gap + above - np.log1p(above) + noise
    (nu,) = _degrees(np.array([[above, excess]]))
    assert LEAST_DEGREES * (1 - 1e-9) <= nu <= MOST_DEGREES * (1 + 1e-9)
    found = np.log(0.5 * nu) - digamma(0.5 * nu)
    wanted = np.log1p(above) - above + excess
    low, high = (np.log(0.5 * n) - digamma(0.5 * n) for n in (MOST_DEGREES, LEAST_DEGREES))
    assert found == pytest.approx(np.clip(wanted, low, high), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("degrees", [0.1, 4.0, 1e6, None])
@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")
def test_extreme_rows_leave_finite_parameters(covariance: str, degrees: float | None) -> None:
    family = StudentT(covariance, degrees)
    far = np.concatenate([rows(3.0, 60), [[0.99e60, 0.0], [-0.99e60, 1e40], [1e-300, 0.0]]])
    for x in (far, np.zeros((30, 2)), np.full((30, 2), 1e59)):
        model = Mixture(family, 2, random_state=0).fit(x)
        assert np.isfinite(model.score_samples(x)).all()
        family.check_params(model.params_.components, 2, 2)


@pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")
def test_a_constant_column_is_floored_and_counted() -> None:
    x = np.c_[rows(5.0, 100)[:, 0], np.full(100, 3.0)]
    model = Mixture(StudentT("diag"), 1).fit(x)
    assert model.n_degenerate_ > 0
    assert model.scale_matrices_[0, 1] == pytest.approx(9e-6)


def test_standard_deviations_exist_above_two_degrees() -> None:
    family = StudentT(degrees=None)
    params = StudentTParams(np.zeros((3, 1)), np.full((3, 1, 1), 3.0), np.array([1.0, 2.0, 6.0]))
    found = family.standard_deviations(params)[:, 0]
    assert np.isinf(found[:2]).all()
    assert found[2] == pytest.approx(stats.t(6.0, scale=3.0).std())


@pytest.mark.parametrize("bad", [0.0, 0.05, 2e6, -1.0, np.nan, np.inf, "3"])
def test_degrees_outside_their_limits_are_refused(bad: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"degrees is .*: a number >= 0\.1 and at most"):
        StudentT(degrees=bad)


def test_other_covariances_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="tied"):
        StudentT("tied")


def test_parameters_of_other_degrees_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="degrees has 5"):
        StudentT(degrees=4.0).check_params(at(5.0), 1, 1)
    StudentT(degrees=None).check_params(at(5.0), 1, 1)
