"""Inverse gamma components, against scipy.stats, plain EM and gamma components of 1/x."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq
from scipy.special import digamma

from mixfold import EM, Mixture
from mixfold.families._gamma_statistics import MOST_SHAPE, GammaParams
from mixfold.families.inverse_gamma import InverseGamma
from mixfold.models.mixture_model import MixtureParams
from real_columns import assert_is_plain_em, assert_learns_tied_rows, assert_refused

RNG = np.random.default_rng(6)
X = 1.0 / np.concatenate(
    [RNG.gamma([3.0, 9.0], [1.0, 0.5], (150, 2)), RNG.gamma([20.0, 4.0], [0.6, 9.0], (100, 2))]
)
START = GammaParams(np.array([[2.0, 4.0], [8.0, 3.0]]), np.array([[0.5, 1.0], [0.8, 0.2]]))


def log_density(x: Any, shapes: Any, scales: Any) -> Any:
    return stats.invgamma.logpdf(x, shapes, scale=scales)


def weighted_fit(x: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean, mean_log = (np.average(t, axis=0, weights=r) for t in (1.0 / x, -np.log(x)))
    shapes = [
        brentq(lambda a, g=g: np.log(a) - digamma(a) - g, 1e-3, 1e6, xtol=1e-13, rtol=1e-13)
        for g in np.log(mean) - mean_log
    ]
    return np.array(shapes), np.array(shapes) / mean


def test_mixture_is_plain_em() -> None:
    assert_is_plain_em(InverseGamma(), X, START, log_density, weighted_fit)


def test_mixture_is_a_gamma_mixture_of_reciprocals() -> None:
    start, learner = MixtureParams(np.full(2, 0.5), START), EM(max_iter=20)
    one = Mixture("inverse-gamma", 2, init=start, learner=learner).fit(X)
    other = Mixture("gamma", 2, init=start, learner=learner).fit(1.0 / X)
    np.testing.assert_allclose(one.shapes_, other.shapes_, rtol=1e-9)
    np.testing.assert_allclose(one.scales_, other.rates_, rtol=1e-9)
    expected = other.score_samples(1.0 / X) - 2.0 * np.log(X).sum(axis=1)
    np.testing.assert_allclose(one.score_samples(X), expected, rtol=1e-9, atol=1e-9)


def test_one_component_is_scipys_fit() -> None:
    model = Mixture("inverse-gamma").fit(X)
    for j in range(2):
        shape, _, scale = stats.invgamma.fit(X[:, j], floc=0.0)
        assert model.shapes_[0, j] == pytest.approx(shape, rel=1e-3)
        assert model.scales_[0, j] == pytest.approx(scale, rel=1e-3)
        fitted = log_density(X[:, j], shape, scale).sum()
        own = log_density(X[:, j], model.shapes_[0, j], model.scales_[0, j]).sum()
        assert own >= fitted - 1e-9 * abs(fitted)


def test_means_are_infinite_for_small_shapes() -> None:
    params = GammaParams(np.array([[0.5], [1.0], [3.0]]), np.array([[1.0], [2.0], [4.0]]))
    means = InverseGamma().attributes(params)["means"]
    np.testing.assert_array_equal(means, [[np.inf], [np.inf], [2.0]])


@pytest.mark.parametrize("factor", [1e-50, 1e-10, 1e50])
def test_scales_follow_the_unit(factor: float) -> None:
    one = Mixture("inverse-gamma", 2, random_state=0).fit(X)
    other = Mixture("inverse-gamma", 2, random_state=0).fit(factor * X)
    np.testing.assert_allclose(other.scales_, factor * one.scales_, rtol=1e-3)
    np.testing.assert_allclose(other.shapes_, one.shapes_, rtol=1e-3)


@pytest.mark.parametrize("bad", [0.0, -1.0])
def test_values_outside_are_refused(bad: float) -> None:
    assert_refused(InverseGamma(), X, bad, "above 0")


@pytest.mark.parametrize("value", [1e-59, 1.0, 3.0, 1e59])
def test_tied_rows_are_at_the_limit(value: float) -> None:
    model = assert_learns_tied_rows(InverseGamma(), X, value)
    assert model.shapes_.max() == pytest.approx(MOST_SHAPE, rel=1e-9)


def test_wide_and_tiny_values_are_learned() -> None:
    x = np.array([[1e-60, 9e59], [1.0, 1e-300], [9e59, 5.0], [2.0, 3.0], [3.0, 4.0]])
    model = Mixture("inverse-gamma", 2, random_state=0).fit(x)
    assert np.isfinite(model.score_samples(x)).all()


def test_samples_of_small_shapes_are_finite() -> None:
    params = GammaParams(np.full((1, 1), 1e-3), np.ones((1, 1)))
    assert np.isfinite(InverseGamma().sample(params, np.zeros(1000, dtype=int), RNG)).all()


def test_components_are_sorted_by_their_means() -> None:
    for k in (2, 3):
        means = Mixture("inverse-gamma", k, random_state=0).fit(X[:, :1]).means_[:, 0]
        assert (np.diff(means) > 0.0).all()
