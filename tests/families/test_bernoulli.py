"""Bernoulli components, against scipy.stats and EM in plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mixfold import EM, Bernoulli, Mixture
from mixfold.core.errors import InvalidInputError
from mixfold.core.statistics import Block
from mixfold.families._probabilities import LEAST, ProbabilityParams
from mixfold.models.mixture_model import MixtureParams
from plain_em import means_of, plain_em

P = np.array([[0.1, 0.2, 0.3, 0.2, 0.9], [0.8, 0.7, 0.9, 0.6, 0.1]])
WEIGHTS = np.array([0.35, 0.65])


def rows(n: int = 400) -> np.ndarray:
    rng = np.random.default_rng(3)
    p = P[rng.choice(2, size=n, p=WEIGHTS)]
    return np.asarray(rng.random(p.shape) < p, dtype=np.float64)


def log_density(x: np.ndarray, p: np.ndarray) -> np.ndarray:
    return np.asarray(stats.bernoulli.logpmf(x[:, None], p).sum(axis=2))


def test_passes_of_em_are_those_in_numpy() -> None:
    x = rows()
    first = np.array([[0.3, 0.4, 0.5, 0.4, 0.6], [0.6, 0.5, 0.7, 0.5, 0.3]])
    start = MixtureParams(np.array([0.5, 0.5]), ProbabilityParams(first))
    model = Mixture("bernoulli", 2, init=start, learner=EM(tol=0.0, max_iter=9)).fit(x)
    weights, p, likelihood = plain_em(
        lambda theta: log_density(x, theta), means_of(x), [0.5, 0.5], first, 9
    )
    np.testing.assert_allclose(model.weights_, weights, rtol=1e-9)
    np.testing.assert_allclose(model.probabilities_, p, rtol=1e-9)
    np.testing.assert_allclose(model.means_, p, rtol=1e-9)
    assert model.score(x) == pytest.approx(likelihood, rel=1e-9)


def test_the_parameters_of_many_rows_are_found() -> None:
    model = Mixture("bernoulli", 2, random_state=0).fit(rows(20_000))
    np.testing.assert_allclose(model.weights_, WEIGHTS, atol=0.02)
    np.testing.assert_allclose(model.probabilities_, P, atol=0.03)


def test_columns_of_booleans_and_integers_are_those_of_floats() -> None:
    x = rows(60)
    expected = Mixture("bernoulli", 1).fit(x).probabilities_
    for kind in (bool, np.int8, np.float32):
        found = Mixture("bernoulli", 1).fit(x.astype(kind)).probabilities_
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_columns_of_one_value_are_limited_and_counted() -> None:
    x = np.c_[np.zeros(30), np.ones(30), np.arange(30) % 2]
    model = Mixture("bernoulli", 1).fit(x)
    np.testing.assert_allclose(model.probabilities_, [[LEAST, 1.0 - LEAST, 0.5]])
    assert model.n_degenerate_ > 0
    np.testing.assert_allclose(model.score_samples(x), np.log(0.5), atol=1e-7)
    impossible = model.score_samples([[1, 0, 0]])
    np.testing.assert_allclose(impossible, 2.0 * np.log(LEAST) + np.log(0.5), rtol=1e-7)


def test_limits_are_counted_by_component() -> None:
    means = np.array([[0.0, 0.5], [1.0, 0.0], [0.3, 0.4], [-1e-17, 0.2], [0.2, 1.0 + 1e-15]])
    params, n_degenerate = Bernoulli().maximize((Block.of_means(np.ones(5), means),))
    np.testing.assert_allclose(params.probabilities, means.clip(LEAST, 1.0 - LEAST), rtol=1e-15)
    assert n_degenerate == 4


def test_all_zeros_and_all_ones() -> None:
    for value in (0.0, 1.0):
        model = Mixture("bernoulli", 2, random_state=0).fit(np.full((20, 3), value))
        np.testing.assert_allclose(model.means_, value, atol=1e-7)
        np.testing.assert_allclose(model.score(np.full((4, 3), value)), 0.0, atol=1e-6)


@pytest.mark.parametrize("value", [-1.0, 0.5, 2.0])
def test_other_values_are_refused_by_row(value: float) -> None:
    x = rows()
    x[16, 1] = value
    with pytest.raises(InvalidInputError, match=r"row 17, column 2 .*whole numbers from 0 to 1"):
        Mixture("bernoulli", 2).fit(x)


@pytest.mark.parametrize("p", [LEAST, 1e-4, 0.5, 1.0 - 1e-4, 1.0 - LEAST])
def test_densities_near_zero_and_one(p: float) -> None:
    params = ProbabilityParams(np.array([[p]]))
    found = Bernoulli().log_density(params, np.array([[0.0], [1.0]]))[:, 0]
    np.testing.assert_allclose(found, [np.log1p(-p), np.log(p)], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, 1.1, 1e-9])
def test_parameters_outside_their_domain_are_refused(p: float) -> None:
    Bernoulli().check_params(ProbabilityParams(np.array([[LEAST, 1.0 - LEAST]])), 1, 2)
    with pytest.raises(InvalidInputError, match="probabilities has"):
        Bernoulli().check_params(ProbabilityParams(np.array([[0.5, p]])), 1, 2)


def test_coordinates_far_away_are_limited() -> None:
    like = ProbabilityParams(np.array([[0.5, 0.5]]))
    found = Bernoulli().constrained(np.array([[-900.0, 900.0]]), like)
    np.testing.assert_allclose(found.probabilities, [[LEAST, 1.0 - LEAST]], rtol=1e-15)
    odds = Bernoulli().parameter_bounds(ProbabilityParams(np.array([[0.25, 0.8]])))
    np.testing.assert_allclose(odds, (4.0, 1.0 / 3.0, 4.0))


def test_divergence_is_of_rows_moved_half_way_to_the_mean() -> None:
    x, weight = np.array([[0.0, 1.0], [1.0, 1.0]]), np.array([1.0, 3.0])
    found = Bernoulli().divergence(x, x, weight)
    # the mean of the first column is 3/4: rows are moved to 3/8 and 7/8, the second stays at 1
    p, q = 0.375, 0.875
    there = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    back = q * np.log(q / p) + (1 - q) * np.log((1 - q) / (1 - p))
    np.testing.assert_allclose(found, [[0.0, there], [back, 0.0]], rtol=1e-12, atol=1e-15)
