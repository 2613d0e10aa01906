"""Weibull components of known shape, against scipy.stats and plain EM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from mixfold import EM, Mixture
from mixfold.core.errors import InvalidInputError
from mixfold.core.statistics import Block
from mixfold.families._scales import FLOOR, ScaleParams
from mixfold.families.mean_params import MeanParams
from mixfold.families.weibull import Weibull
from mixfold.models.mixture_model import MixtureParams
from real_columns import assert_is_plain_em, assert_refused

RNG = np.random.default_rng(8)
X = RNG.weibull(1.5, (250, 2)) * np.repeat([[1.0, 2.0], [9.0, 0.5]], [150, 100], axis=0)
SHAPES = [0.1, 0.7, 1.0, 3.0, 100.0]
START = np.array([[1.5, 1.5], [4.0, 1.0]])


@pytest.mark.parametrize("shape", SHAPES[1:-1])
def test_mixture_is_plain_em(shape: float) -> None:
    def log_density(x: Any, scales: Any) -> Any:
        return stats.weibull_min.logpdf(x, shape, scale=scales)

    def weighted_fit(x: np.ndarray, r: np.ndarray) -> tuple[np.ndarray]:
        return (np.average(x**shape, axis=0, weights=r) ** (1.0 / shape),)

    assert_is_plain_em(Weibull(shape), X, ScaleParams(START), log_density, weighted_fit)


@pytest.mark.parametrize("shape", SHAPES)
def test_one_component_is_scipys_fit(shape: float) -> None:
    x = 0.1 * X
    model = Mixture(Weibull(shape)).fit(x)
    for j in range(2):
        _, _, scale = stats.weibull_min.fit(x[:, j], floc=0.0, f0=shape)
        assert model.scales_[0, j] == pytest.approx(scale, rel=1e-3)
    np.testing.assert_allclose(model.means_, stats.weibull_min.mean(shape, scale=model.scales_))


def test_shape_one_is_the_exponential_family() -> None:
    learner, weights = EM(max_iter=20), np.full(2, 0.5)
    one = Mixture(Weibull(), 2, init=MixtureParams(weights, ScaleParams(START)), learner=learner)
    other = Mixture(
        "exponential", 2, init=MixtureParams(weights, MeanParams(START)), learner=learner
    )
    np.testing.assert_allclose(one.fit(X).means_, other.fit(X).means_, rtol=1e-9)
    np.testing.assert_allclose(one.score_samples(X), other.score_samples(X), rtol=1e-9)


@pytest.mark.parametrize("bad", [0.0, 0.05, 101.0, np.nan, np.inf, "2"])
def test_shapes_outside_are_refused(bad: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"shape is .*: a number >= 0\.1 and at most 100"):
        Weibull(bad)


def test_values_outside_are_refused() -> None:
    assert_refused(Weibull(), X, -1e-9, ">= 0")
    assert_refused(Weibull(0.5), X, -1e-9, ">= 0")
    assert_refused(Weibull(3.0), X, 1.1e20, r"from 0 to 1e\+20")
    x = X.copy()
    x[4, 1] = 0.9e20
    assert np.isfinite(Mixture(Weibull(3.0), 2, random_state=0).fit(x).score_samples(x)).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_borders_are_finite(shape: float) -> None:
    """Zeros, and the smallest and largest values that are accepted."""
    family = Weibull(shape)
    largest = min(0.99e60, 0.99 * family.accepted.high)
    x = np.concatenate([0.1 * X, [[0.0, largest], [largest, 1e-300], [1e-60, 0.0]]])
    for rows in (x, np.zeros((20, 2)), np.full((20, 2), largest)):
        model = Mixture(family, 2, random_state=0).fit(rows)
        assert np.isfinite(model.score_samples(rows)).all()
        family.check_params(model.params_.components, 2, 2)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_component_of_zeros_is_at_its_limit(shape: float) -> None:
    theta, weight = np.array([[0.0], [8.0]]), np.array([1.0, 3.0])
    family = Weibull(shape)
    params, count_degenerate = family.maximize((Block.of_means(weight, theta),))
    scales = [[max(FLOOR * 6.0 ** (1 / shape), family.limits[0])], [8.0 ** (1 / shape)]]
    np.testing.assert_allclose(params.scales, scales, rtol=1e-12)
    assert count_degenerate == 1
    assert family.degenerate(params, np.array([0.25, 0.75])).tolist() == [[True], [False]]
