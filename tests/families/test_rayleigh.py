"""Rayleigh components, against scipy.stats and plain EM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from mixfold import Mixture
from mixfold.core.statistics import Block
from mixfold.families._scales import FLOOR, ScaleParams
from mixfold.families.rayleigh import Rayleigh
from real_columns import assert_is_plain_em, assert_refused

RNG = np.random.default_rng(5)
X = np.concatenate([RNG.rayleigh([1.0, 2.0], (150, 2)), RNG.rayleigh([6.0, 1.0], (100, 2))])


def log_density(x: Any, scales: Any) -> Any:
    return stats.rayleigh.logpdf(x, scale=scales)


def weighted_fit(x: np.ndarray, r: np.ndarray) -> tuple[np.ndarray]:
    return (np.sqrt(0.5 * np.average(x**2, axis=0, weights=r)),)


def test_mixture_is_plain_em() -> None:
    start = ScaleParams(np.array([[1.5, 1.5], [4.0, 1.8]]))
    assert_is_plain_em(Rayleigh(), X, start, log_density, weighted_fit)


def test_one_component_is_scipys_fit() -> None:
    model = Mixture("rayleigh").fit(X)
    for j in range(2):
        _, scale = stats.rayleigh.fit(X[:, j], floc=0.0)
        assert model.scales_[0, j] == pytest.approx(scale, rel=1e-6)
    np.testing.assert_allclose(model.means_, stats.rayleigh.mean(scale=model.scales_))


@pytest.mark.parametrize("factor", [1e-28, 1e-10, 1e25])
def test_scales_follow_the_unit(factor: float) -> None:
    one = Mixture("rayleigh", 2, random_state=0).fit(X)
    other = Mixture("rayleigh", 2, random_state=0).fit(factor * X)
    np.testing.assert_allclose(other.scales_, factor * one.scales_, rtol=1e-3)


def test_values_outside_are_refused() -> None:
    assert_refused(Rayleigh(), X, -1e-9, r"from 0 to 1e\+30")
    assert_refused(Rayleigh(), X, 2e30, r"from 0 to 1e\+30")


def test_a_component_of_zeros_is_at_its_limit() -> None:
    theta, weight = np.array([[0.0], [8.0]]), np.array([1.0, 3.0])
    params, count_degenerate = Rayleigh().maximize((Block.of_means(weight, theta),))
    np.testing.assert_allclose(params.scales, [[FLOOR * np.sqrt(3.0)], [2.0]], rtol=1e-12)
    assert count_degenerate == 1
    on_limit = Rayleigh().degenerate(params, np.array([0.25, 0.75]))
    assert on_limit.tolist() == [[True], [False]]


def test_zeros_are_learned_in_finite_numbers() -> None:
    rows = np.concatenate([X, np.zeros((50, 2))])
    for x in (rows, np.zeros((50, 2))):
        model = Mixture("rayleigh", 2, random_state=0).fit(x)
        assert np.isfinite(model.score_samples(x)).all()
        assert (model.scales_ > 0.0).all()


def test_divergence_is_what_likelihood_is_lost() -> None:
    """D(x, c) is the log-likelihood where E[x^2] is x^2 itself, less that where it is c^2."""
    x, c = X[:4], X[200:203]
    found = Rayleigh().divergence(x, c, np.ones(len(x)))
    for i, row in enumerate(x):
        for j, center in enumerate(c):
            best, other = (log_density(row, one / np.sqrt(2.0)).sum() for one in (row, center))
            assert found[i, j] == pytest.approx(best - other, rel=1e-10)
