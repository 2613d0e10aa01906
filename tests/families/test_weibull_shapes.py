"""Weibull components of estimated shapes, against scipy.stats and the likelihood equations."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq

from mixfold import EM, Mixture, Weibull
from mixfold.backends.threads import Threads
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Rows
from mixfold.families._weibull_shapes import (
    EXPECTED,
    LEAST_SHAPE,
    MOST_SHAPE,
    WeibullParams,
    WeibullShapes,
)
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from real_columns import assert_refused
from scipy_fits import to_rounding

FREE = Weibull(shape=None)


def rows(shape: float, scale: float = 3.0, n: int = 500, seed: int = 0, d: int = 1) -> np.ndarray:
    return np.asarray(scale * np.random.default_rng(seed).weibull(shape, (n, d)))


def at(scale: float, shape: float) -> WeibullParams:
    return WeibullParams(np.array([[scale]]), np.array([[shape]]))


def passes(n: int) -> EM:
    return EM(tol=0.0, max_iter=n, accelerate=False)


def likelihood_equation(x: np.ndarray) -> tuple[float, float]:
    """The shape and scale of highest likelihood, by a scalar solver."""
    logs = np.log(x) - np.log(x).max()

    def score(b: float) -> float:
        power = np.exp(b * logs)
        return float(power @ logs / power.sum() - 1.0 / b - logs.mean())

    shape = brentq(score, 0.01, 1e5, xtol=1e-13, rtol=1e-14)
    return shape, float(x.max() * np.exp(shape * logs).mean() ** (1.0 / shape))


# densities


@pytest.mark.parametrize("shape", [0.1, 0.7, 1.0, 2.5, 30.0, 1e3])
@pytest.mark.parametrize("scale", [1e-40, 0.3, 1e50])
def test_densities_are_scipys(shape: float, scale: float) -> None:
    x = scale * np.array([0.5, 0.9, 0.999, 1.0, 1.001, 1.1])[:, None]
    found = FREE.log_density(at(scale, shape), x)
    expected = FREE.scipy_log_density(at(scale, shape), x)
    np.testing.assert_allclose(found, expected, 1e-10, 1e-10)


@pytest.mark.parametrize("shape", [0.1, 1.0, 3.0])
def test_densities_of_far_values_are_scipys(shape: float) -> None:
    x = np.array([1e-50, 1e-9, 1e-3, 30.0, 1e5, 1e20])[:, None]
    expected = stats.weibull_min.logpdf(x, shape, scale=2.0)
    np.testing.assert_allclose(FREE.log_density(at(2.0, shape), x), expected, 1e-10, 1e-10)


def test_known_shapes_have_the_same_densities() -> None:
    x = rows(2.0)
    known = Weibull(2.5)
    params = known.example(1, 1, np.random.default_rng(0))
    same = WeibullParams(params.scales, np.array([[2.5]]))
    np.testing.assert_allclose(FREE.log_density(same, x), known.log_density(params, x), rtol=1e-12)


@pytest.mark.parametrize("shape", [0.1, 2.0, 1e4])
def test_samples_have_the_distribution(shape: float) -> None:
    x = FREE.sample(at(2.0, shape), np.zeros(3000, dtype=int), np.random.default_rng(0))
    assert stats.kstest(x[:, 0], stats.weibull_min(shape, scale=2.0).cdf).pvalue > 1e-3
    deviation = stats.weibull_min.std(shape, scale=2.0) if shape < 100.0 else 2.0 * 1.2825e-4
    assert FREE.standard_deviations(at(2.0, shape))[0, 0] == pytest.approx(deviation, rel=1e-3)
    mean = FREE.attributes(at(2.0, shape))["means"][0, 0]
    assert mean == pytest.approx(stats.weibull_min.mean(shape, scale=2.0), rel=1e-10)


# one component is the maximum-likelihood fit


@pytest.mark.parametrize("shape", [0.3, 1.0, 4.0, 50.0])
def test_one_component_is_scipys_fit(shape: float) -> None:
    x = rows(shape)
    model = Mixture(FREE, 1, learner=passes(40)).fit(x)
    fitted, _, scale = stats.weibull_min.fit(
        x[:, 0], shape, floc=0.0, scale=3.0, optimizer=to_rounding
    )
    assert model.shapes_[0, 0] == pytest.approx(fitted, rel=1e-6)
    assert model.scales_[0, 0] == pytest.approx(scale, rel=1e-6)
    exact = likelihood_equation(x[:, 0])
    np.testing.assert_allclose([model.shapes_[0, 0], model.scales_[0, 0]], exact, rtol=1e-9)


@pytest.mark.parametrize("start", [LEAST_SHAPE, 0.7, 30.0, MOST_SHAPE])
@pytest.mark.parametrize("shape", [0.3, 2.0, 200.0])
def test_shapes_are_found_from_any_start(start: float, shape: float) -> None:
    x = rows(shape)
    init = MixtureParams(np.ones(1), at(3.0, start))
    model = Mixture(FREE, 1, init=init, learner=passes(60)).fit(x)
    exact = likelihood_equation(x[:, 0])
    np.testing.assert_allclose([model.shapes_[0, 0], model.scales_[0, 0]], exact, rtol=1e-8)


def test_convergence_is_quadratic() -> None:
    x = rows(2.0)
    exact = likelihood_equation(x[:, 0])[0]
    init = MixtureParams(np.ones(1), at(3.0, 1.2 * exact))
    errors = [
        abs(Mixture(FREE, 1, init=init, learner=passes(n)).fit(x).shapes_[0, 0] / exact - 1.0)
        for n in (1, 2, 3, 4)
    ]
    assert errors[3] < 1e-9
    assert all(b < max(3.0 * a * a, 1e-12) for a, b in pairwise(errors))


def test_parameters_are_recovered_within_their_errors() -> None:
    """Most estimates are within two standard errors; these are those over the replications."""
    scales, shapes = np.array([[1.0, 9.0], [6.0, 1.0]]), np.array([[2.0, 5.0], [3.0, 0.9]])
    found = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x = FREE.sample(WeibullParams(scales, shapes), rng.integers(2, size=3000), rng)
        model = Mixture(FREE, 2, random_state=0).fit(x)
        order = np.argsort(model.scales_[:, 0])
        found.append(np.log([model.scales_[order], model.shapes_[order]]).ravel())
    estimates, truth = np.array(found), np.log([scales, shapes]).ravel()
    error = np.abs(estimates - truth) / estimates.std(axis=0, ddof=1)
    assert (error < 2.0).mean() > 0.85
    bias = np.abs(estimates.mean(axis=0) - truth) / estimates.std(axis=0, ddof=1) * np.sqrt(10)
    assert (bias < 4.0).all()


# EM


@pytest.mark.parametrize("seed", range(4))
def test_em_never_lowers_the_likelihood(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.concatenate([rows(0.4, 2.0, 100, seed, 2), rows(8.0, 5.0, 150, seed, 2)])
    start = WeibullParams(rng.uniform(0.5, 9.0, (3, 2)), 10.0 ** rng.uniform(-1, 0.7, (3, 2)))
    model, learner = MixtureModel(FREE, 3, 2), passes(100)
    backend = Threads(model, 1)
    state = learner.init(backend, MixtureParams(np.full(3, 1.0 / 3.0), start))
    reached = -np.inf
    for _ in range(60):
        state, _ = learner.step(backend, state, Rows(x))
        state, infos = learner.end_pass(backend, state)
        assert infos[-1].log_likelihood >= reached - 1e-10
        reached = infos[-1].log_likelihood


@settings(max_examples=300, deadline=None)
@given(
    logs=st.lists(st.floats(-3.0, 3.0), min_size=1),
    log_shape=st.floats(np.log(LEAST_SHAPE), np.log(15.0)),
)
def test_a_step_never_lowers_the_likelihood(logs: list[float], log_shape: float) -> None:
    x = np.exp(np.array(logs))[:, None]
    present = at(1.0, float(np.exp(log_shape)))
    t = FREE.expected_statistics(present, x)
    blocks = FREE.to_blocks(present, np.hstack([[len(x)], t[0].sum(axis=0)])[None])
    found, _ = FREE.maximize(blocks)
    FREE.check_params(found, 1, 1)
    before, after = (FREE.log_density(one, x).mean() for one in (present, found))
    assert after >= before - 1e-10 * (1.0 + abs(before))


def test_expectations_are_those_of_samples() -> None:
    params = at(2.0, 1.7)
    x = FREE.sample(params, np.zeros(400_000, dtype=int), np.random.default_rng(0))
    t = FREE.expected_statistics(params, x)[0]
    (block,) = FREE.expected(params, np.ones(1))
    error = 6.0 * t.std(axis=0) / np.sqrt(len(x)) + 1e-10
    assert (np.abs(t.mean(axis=0) - block.mean[0]) < error).all()
    assert t.shape[1] == len(EXPECTED) + 2


# limits


@pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")
def test_equal_rows_are_degenerate() -> None:
    x = np.full((30, 1), 7.0)
    model = Mixture(FREE, 1, learner=passes(30)).fit(x)
    assert model.shapes_[0, 0] == pytest.approx(MOST_SHAPE)
    assert model.n_degenerate_ > 0
    assert FREE.degenerate(model.params_.components, np.ones(1)).all()


@pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")
def test_extreme_values_leave_finite_parameters() -> None:
    far = np.concatenate([rows(2.0, d=2), [[0.99e60, 1e-60], [1e-300, 1.0], [1e30, 1e30]]])
    for x in (far, np.full((20, 2), 0.99e60), np.full((20, 2), 1e-300)):
        model = Mixture(FREE, 2, random_state=0).fit(x)
        assert np.isfinite(model.score_samples(x)).all()
        FREE.check_params(model.params_.components, 2, 2)


def test_values_outside_are_refused() -> None:
    assert_refused(FREE, rows(2.0, d=2), 0.0, "above 0")
    assert_refused(FREE, rows(2.0, d=2), -1.0, "above 0")


def test_it_is_a_weibull_without_a_shape() -> None:
    assert isinstance(FREE, WeibullShapes)
    assert repr(FREE) == "Weibull(shape=None)"
    assert repr(Weibull()) == "Weibull(shape=1.0)"
    with pytest.raises(InvalidInputError, match=r"use Weibull\(2.0\)"):
        WeibullShapes(2.0)  # type: ignore[arg-type]
