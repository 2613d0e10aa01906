"""Inverse Gaussian components, against scipy.stats and plain EM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from mixfold import Mixture
from mixfold.core.statistics import Block
from mixfold.families._above_zero import LEAST_VARIATION
from mixfold.families.inverse_gaussian import InverseGaussian, InverseGaussianParams
from real_columns import assert_is_plain_em, assert_learns_tied_rows, assert_refused

RNG = np.random.default_rng(7)
X = np.concatenate(
    [RNG.wald([1.0, 9.0], [3.0, 40.0], (150, 2)), RNG.wald([12.0, 1.0], [50.0, 0.8], (100, 2))]
)


def log_density(x: Any, means: Any, shapes: Any) -> Any:
    return stats.invgauss.logpdf(x, means / shapes, scale=shapes)


def weighted_fit(x: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = np.average(x, axis=0, weights=r)
    return mean, 1.0 / np.average((x - mean) ** 2 / (mean**2 * x), axis=0, weights=r)


def test_mixture_is_plain_em() -> None:
    start = InverseGaussianParams(
        np.array([[2.0, 6.0], [8.0, 2.0]]), np.array([[2.0, 9.0], [9.0, 1.0]])
    )
    assert_is_plain_em(InverseGaussian(), X, start, log_density, weighted_fit)


def test_one_component_is_scipys_fit() -> None:
    model = Mixture("inverse-gaussian").fit(X)
    for j in range(2):
        ratio, _, shape = stats.invgauss.fit(X[:, j], floc=0.0)
        assert model.means_[0, j] == pytest.approx(ratio * shape, rel=1e-6)
        assert model.shapes_[0, j] == pytest.approx(shape, rel=1e-6)


@pytest.mark.parametrize("factor", [1e-50, 1e-10, 1e50])
def test_parameters_follow_the_unit(factor: float) -> None:
    one = Mixture("inverse-gaussian", 2, random_state=0).fit(X)
    other = Mixture("inverse-gaussian", 2, random_state=0).fit(factor * X)
    np.testing.assert_allclose(other.means_, factor * one.means_, rtol=1e-3)
    np.testing.assert_allclose(other.shapes_, factor * one.shapes_, rtol=1e-3)


@pytest.mark.parametrize("bad", [0.0, -1.0])
def test_values_outside_are_refused(bad: float) -> None:
    assert_refused(InverseGaussian(), X, bad, "above 0")


@pytest.mark.parametrize("value", [1e-59, 1.0, 3.0, 1e59])
def test_tied_rows_are_at_the_limit(value: float) -> None:
    model = assert_learns_tied_rows(InverseGaussian(), X, value)
    variation = model.means_ / model.shapes_
    assert variation.min() == pytest.approx(LEAST_VARIATION, rel=1e-9)
    found = InverseGaussian().degenerate(model.params_.components, model.weights_)
    np.testing.assert_array_equal(found, variation < 1.1 * LEAST_VARIATION)


def test_statistics_out_of_their_domain_are_at_a_limit() -> None:
    """Means that are negative by rounding, and products of means below one."""
    means = np.array([[-1e-20, 5.0], [1.0, 0.9], [1.0, -1e-9], [1e60, 1e60]])
    params, count_degenerate = InverseGaussian().maximize((Block.of_means(np.ones(4), means),))
    assert count_degenerate == 3
    np.testing.assert_allclose(params.shapes[3], 1e-60)
    np.testing.assert_allclose(params.shapes[:3] / params.means[:3], 1.0 / LEAST_VARIATION)
    InverseGaussian().check_params(params, 4, 1)


def test_wide_and_tiny_values_are_learned() -> None:
    x = np.array([[1e-60, 9e59], [1.0, 1e-300], [9e59, 5.0], [2.0, 3.0], [3.0, 4.0]])
    model = Mixture("inverse-gaussian", 2, random_state=0).fit(x)
    assert np.isfinite(model.score_samples(x)).all()


def test_divergence_by_hand() -> None:
    x, c = np.array([[1.0, 2.0], [4.0, 2.0]]), np.array([[2.0, 2.0], [4.0, 1.0]])
    found = InverseGaussian().divergence(x, c, np.ones(2))
    np.testing.assert_allclose(found, [[0.5, 2.25 + 0.5], [0.5, 0.5]])
