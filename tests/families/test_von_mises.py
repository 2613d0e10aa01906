"""Von Mises components, and concentrations of highest likelihood, against scipy and plain EM."""

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
from scipy.special import i0e, i1e

from mixfold import Mixture
from mixfold.core.statistics import Block
from mixfold.families import _von_mises_concentrations
from mixfold.families._von_mises_concentrations import (
    resultant_lengths,
    von_mises_concentrations,
)
from mixfold.families.von_mises import LEAST, MOST, VonMises, VonMisesParams
from real_columns import assert_is_plain_em, assert_learns_tied_rows, assert_refused

RNG = np.random.default_rng(5)
X = np.concatenate(
    [
        RNG.vonmises([-1.0, 3.0], [2.0, 9.0], (150, 2)),
        RNG.vonmises([1.5, 0.5], [6.0, 1.0], (100, 2)),
    ]
)


def log_density(x: Any, directions: Any, concentrations: Any) -> Any:
    return stats.vonmises.logpdf(x, concentrations, loc=directions)


def weighted_fit(x: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = np.average(np.exp(1j * x), axis=0, weights=r)
    kappa = [
        brentq(lambda a, m=m: i1e(a) / i0e(a) - m, 1e-9, 1e6, xtol=1e-13, rtol=1e-13)
        for m in np.abs(mean)
    ]
    return np.angle(mean), np.array(kappa)


# the solver


def test_lengths_are_mean_cosines() -> None:
    for kappa in (1e-3, 0.5, 4.0, 100.0, 499.0, 501.0, 1e4):
        reach = min(np.pi, 40.0 / np.sqrt(kappa))

        def weight(x: float, kappa: float = kappa) -> float:
            return float(np.exp(kappa * (np.cos(x) - 1.0)))

        total = quad(weight, 0.0, reach, epsrel=1e-12)[0]
        lack = quad(lambda x: 2.0 * np.sin(0.5 * x) ** 2 * weight(x), 0.0, reach, epsrel=1e-12)[0]
        found = resultant_lengths(np.array([kappa]))[0]
        assert 1.0 - found == pytest.approx(lack / total, rel=1e-10)


def test_concentrations_invert_lengths_over_the_whole_domain() -> None:
    """Where the concentration is large, rounding of the length is magnified."""
    kappa = np.concatenate([np.geomspace(LEAST, MOST, 400), [499.99, 500.0, 500.01]])
    found = von_mises_concentrations(resultant_lengths(kappa))
    assert (np.abs(found / kappa - 1.0) < 1e-12 + 1e-15 * kappa).all()


@settings(max_examples=300, deadline=None)
@given(st.floats(1e-9, 1.0 - 6e-9))
def test_every_length_has_its_concentration(length: float) -> None:
    kappa = von_mises_concentrations(np.array([length]))
    assert resultant_lengths(kappa)[0] == pytest.approx(length, rel=1e-14, abs=1e-15)


def test_convergence_is_quadratic(monkeypatch: pytest.MonkeyPatch) -> None:
    kappa = np.geomspace(1e-4, 1e3, 200)
    lengths = resultant_lengths(kappa)
    errors = []
    for iterations in range(5):
        monkeypatch.setattr(_von_mises_concentrations, "ITERATIONS", iterations)
        errors.append(np.abs(von_mises_concentrations(lengths) / kappa - 1.0).max())
    assert errors[0] < 0.07
    for before, after in pairwise(errors):
        assert after < 1.5 * before**2 + 1e-12


# the family


def test_mixture_is_plain_em() -> None:
    start = VonMisesParams(np.array([[-0.5, 2.0], [1.0, 1.0]]), np.array([[1.0, 4.0], [3.0, 2.0]]))
    assert_is_plain_em(VonMises(), X, start, log_density, weighted_fit)


def test_one_component_is_scipys_fit() -> None:
    model = Mixture("von-mises").fit(X)
    for j in range(2):
        kappa, direction, _ = stats.vonmises.fit(X[:, j], fscale=1.0)
        assert model.means_[0, j] == pytest.approx(direction, rel=1e-6)
        assert model.concentrations_[0, j] == pytest.approx(kappa, rel=1e-6)
        assert model.means_[0, j] == pytest.approx(stats.circmean(X[:, j], np.pi, -np.pi))


def test_whole_turns_change_nothing() -> None:
    """Angles from 0 to 2 pi, or with turns, are learned like those from -pi to pi."""
    one = Mixture("von-mises", 2, random_state=0).fit(X)
    turns = 2.0 * np.pi * RNG.integers(-3, 4, X.shape)
    for x in (np.mod(X, 2.0 * np.pi), X + turns):
        other = Mixture("von-mises", 2, random_state=0).fit(x)
        np.testing.assert_allclose(other.means_, one.means_, rtol=1e-8)
        np.testing.assert_allclose(other.concentrations_, one.concentrations_, rtol=1e-8)
        np.testing.assert_allclose(other.score_samples(x), one.score_samples(X), rtol=1e-8)


def test_a_cluster_around_pi_is_one_component() -> None:
    rows = np.concatenate([RNG.vonmises(np.pi, 30.0, 300), RNG.vonmises(0.0, 30.0, 300)])[:, None]
    model = Mixture("von-mises", 2, random_state=0).fit(rows)
    far = np.abs(model.means_[:, 0]).argmax()
    assert np.cos(model.means_[far, 0] - np.pi) > 0.999
    assert 20.0 < model.concentrations_[far, 0] < 45.0


def test_only_numbers_beyond_the_range_are_refused() -> None:
    assert_refused(VonMises(), X, 1e61, r"below 1e\+60")
    x = X.copy()
    x[4, 1] = 0.99e60
    assert np.isfinite(Mixture("von-mises", 2, random_state=0).fit(x).score_samples(x)).all()


@pytest.mark.parametrize("value", [-np.pi, 0.0, 1e-300, 2.0, np.pi])
def test_tied_rows_are_at_the_limit(value: float) -> None:
    model = assert_learns_tied_rows(VonMises(), X, value)
    assert model.concentrations_.max() == pytest.approx(MOST, rel=1e-6)
    found = VonMises().degenerate(model.params_.components, model.weights_)
    np.testing.assert_array_equal(found, model.concentrations_ > 0.9 * MOST)


def test_statistics_out_of_their_domain_are_at_a_limit() -> None:
    """No resultant, which is a uniform distribution, and one longer than 1 by rounding."""
    means = np.array([[0.0, 0.0], [1.0 + 1e-12, 0.0], [0.0, -0.5]])
    params, count_degenerate = VonMises().maximize((Block.of_means(np.ones(3), means),))
    assert count_degenerate == 1
    np.testing.assert_allclose(params.concentrations[:2, 0], [LEAST, MOST], rtol=1e-6)
    np.testing.assert_allclose(params.directions[2], -np.pi / 2.0)
    uniform = VonMises().log_density(params, np.array([[-3.0], [0.1], [2.0]]))[:, 0]
    np.testing.assert_allclose(uniform, -np.log(2.0 * np.pi), rtol=1e-6)


def test_divergence_by_hand() -> None:
    found = VonMises().divergence(np.array([[0.0, 1.0]]), np.array([[np.pi, 1.0], [0.0, 1.0]]), X)
    np.testing.assert_allclose(found, [[2.0, 0.0]], atol=1e-12)
