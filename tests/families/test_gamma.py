"""Gamma components, and the shapes of highest likelihood, against scipy and an integral."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import digamma

from mixfold import Mixture
from mixfold.core.statistics import Block
from mixfold.families import _gamma_shapes
from mixfold.families._gamma_shapes import gamma_shapes, log_less_digamma
from mixfold.families._gamma_statistics import LEAST_SHAPE, MOST_SHAPE, GammaParams
from mixfold.families.gamma import Gamma
from real_columns import assert_is_plain_em, assert_learns_tied_rows, assert_refused

RNG = np.random.default_rng(5)
X = np.concatenate(
    [RNG.gamma([2.0, 9.0], [1.0, 0.5], (150, 2)), RNG.gamma([20.0, 0.8], [0.6, 2.0], (100, 2))]
)


def log_density(x: Any, shapes: Any, rates: Any) -> Any:
    return stats.gamma.logpdf(x, shapes, scale=1.0 / rates)


def weighted_fit(x: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean, mean_log = (np.average(t, axis=0, weights=r) for t in (x, np.log(x)))
    shapes = [
        brentq(lambda a, g=g: np.log(a) - digamma(a) - g, 1e-3, 1e6, xtol=1e-13, rtol=1e-13)
        for g in np.log(mean) - mean_log
    ]
    return np.array(shapes), np.array(shapes) / mean


def exact_gap(shape: float) -> float:
    """log(a) - digamma(a), by Binet's integral where the difference would cancel."""
    if shape < 1.0:
        return float(np.log(shape) - digamma(shape))
    inner, _ = quad(lambda t: 2 * t / np.expm1(2 * np.pi * t) / (1 + (t / shape) ** 2), 1e-300, 9.0)
    return float(0.5 / shape + inner / shape**2)


# the solver


def test_gaps_are_those_of_high_precision() -> None:
    shapes = np.concatenate([np.geomspace(1e-4, 1e13, 120), [19.99, 20.0, 20.01]])
    expected = [exact_gap(one) for one in shapes]
    np.testing.assert_allclose(log_less_digamma(shapes), expected, rtol=2e-14)


def test_shapes_invert_gaps_over_the_whole_domain() -> None:
    """Gaps from 1e-12 to 1e3 are those of shapes from 5e11 to 1e-3."""
    shapes = np.geomspace(0.9e-3, 1e12, 300).reshape(3, 100)
    gaps = np.vectorize(exact_gap)(shapes)
    assert gaps.min() < 1e-12
    assert gaps.max() > 1e3
    np.testing.assert_allclose(gamma_shapes(gaps), shapes, rtol=1e-12)


@settings(max_examples=300, deadline=None)
@given(st.floats(-12.0, 3.0))
def test_every_gap_has_its_shape(exponent: float) -> None:
    gap = np.array([10.0**exponent])
    shape = gamma_shapes(gap)
    assert exact_gap(shape[0]) == pytest.approx(gap[0], rel=1e-11)


def test_convergence_is_quadratic(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = np.geomspace(1e-3, 1e10, 200)
    gaps = np.vectorize(exact_gap)(shapes)
    errors = []
    for iterations in range(4):
        monkeypatch.setattr(_gamma_shapes, "ITERATIONS", iterations)
        errors.append(np.abs(gamma_shapes(gaps) / shapes - 1.0).max())
    assert errors[0] < 0.02
    for before, after in pairwise(errors):
        assert after < before**2 + 1e-12


def test_no_shape_depends_on_the_others() -> None:
    gaps = np.geomspace(1e-12, 1e3, 50)
    alone = [gamma_shapes(gaps[i : i + 1])[0] for i in range(50)]
    np.testing.assert_array_equal(gamma_shapes(gaps), alone)


# the family


def test_mixture_is_plain_em() -> None:
    start = GammaParams(np.array([[1.0, 4.0], [8.0, 2.0]]), np.array([[0.5, 1.0], [0.8, 1.2]]))
    assert_is_plain_em(Gamma(), X, start, log_density, weighted_fit)


def test_one_component_is_scipys_fit() -> None:
    model = Mixture("gamma").fit(X)
    for j in range(2):
        shape, _, scale = stats.gamma.fit(X[:, j], floc=0.0)
        assert model.shapes_[0, j] == pytest.approx(shape, rel=1e-6)
        assert model.rates_[0, j] == pytest.approx(1.0 / scale, rel=1e-6)
    np.testing.assert_allclose(model.means_[0], X.mean(axis=0))


@pytest.mark.parametrize("factor", [1e-50, 1e-10, 1e50])
def test_rates_follow_the_unit(factor: float) -> None:
    one = Mixture("gamma", 2, random_state=0).fit(X)
    other = Mixture("gamma", 2, random_state=0).fit(factor * X)
    np.testing.assert_allclose(other.means_, factor * one.means_, rtol=1e-3)
    np.testing.assert_allclose(other.shapes_, one.shapes_, rtol=1e-3)


@pytest.mark.parametrize("bad", [0.0, -1.0])
def test_values_outside_are_refused(bad: float) -> None:
    assert_refused(Gamma(), X, bad, "above 0")
    assert_refused(Gamma(), X.astype(np.float32), bad, "above 0")


@pytest.mark.parametrize("value", [1e-59, 1.0, 3.0, 1e59])
def test_tied_rows_are_at_the_limit(value: float) -> None:
    model = assert_learns_tied_rows(Gamma(), X, value)
    assert model.shapes_.max() == pytest.approx(MOST_SHAPE, rel=1e-9)
    found = Gamma().degenerate(model.params_.components, model.weights_)
    np.testing.assert_array_equal(found, model.shapes_ > 0.9 * MOST_SHAPE)


def test_statistics_out_of_their_domain_are_at_a_limit() -> None:
    """Means that are negative or zero by rounding, and logarithms above that of the mean."""
    means = np.array([[-1e-20, -5.0], [0.0, 1.0], [2.0, 0.7], [1e60, -138.0]])
    params, count_degenerate = Gamma().maximize((Block.of_means(np.ones(4), means),))
    assert count_degenerate == 3
    np.testing.assert_allclose(params.shapes[:3], MOST_SHAPE, rtol=1e-9)
    assert LEAST_SHAPE < params.shapes[3, 0] < 0.01
    Gamma().check_params(params, 4, 1)


def test_wide_and_tiny_values_are_learned() -> None:
    x = np.array([[1e-60, 9e59], [1.0, 1e-300], [9e59, 5.0], [2.0, 3.0], [3.0, 4.0]])
    model = Mixture("gamma", 2, random_state=0).fit(x)
    assert np.isfinite(model.score_samples(x)).all()
    assert (model.shapes_ > LEAST_SHAPE).all()


def test_samples_of_small_shapes_are_above_zero() -> None:
    params = GammaParams(np.full((1, 1), LEAST_SHAPE), np.ones((1, 1)))
    x = Gamma().sample(params, np.zeros(1000, dtype=int), RNG)
    outside = Gamma().out_of_support(x)
    assert outside is not None
    assert not outside.any()
