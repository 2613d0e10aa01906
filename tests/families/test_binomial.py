"""Binomial components, against scipy.stats, EM in plain NumPy, and exact coefficients."""

from __future__ import annotations

from math import comb, log
from typing import Any

import numpy as np
import pytest
from scipy import stats

from mixfold import EM, Bernoulli, Binomial, Mixture
from mixfold.core.errors import InvalidInputError
from mixfold.families._probabilities import LEAST, ProbabilityParams
from mixfold.models.mixture_model import MixtureParams
from plain_em import means_of, plain_em

N = 12
P = np.array([[0.2, 0.7], [0.6, 0.4]])
WEIGHTS = np.array([0.35, 0.65])


def rows(n: int = 400) -> np.ndarray:
    rng = np.random.default_rng(3)
    p = P[rng.choice(2, size=n, p=WEIGHTS)]
    return np.asarray(stats.binom.rvs(N, p, random_state=rng), dtype=np.float64)


def log_density(x: np.ndarray, p: np.ndarray) -> np.ndarray:
    return np.asarray(stats.binom.logpmf(x[:, None], N, p).sum(axis=2))


def test_passes_of_em_are_those_in_numpy() -> None:
    x = rows()
    first = np.array([[0.4, 0.5], [0.5, 0.4]])
    start = MixtureParams(np.array([0.5, 0.5]), ProbabilityParams(first))
    model = Mixture(Binomial(N), 2, init=start, learner=EM(tol=0.0, max_iter=9)).fit(x)
    weights, p, likelihood = plain_em(
        lambda theta: log_density(x, theta), means_of(x / N), [0.5, 0.5], first, 9
    )
    np.testing.assert_allclose(model.weights_, weights, rtol=1e-9)
    np.testing.assert_allclose(model.probabilities_, p, rtol=1e-9)
    np.testing.assert_allclose(model.means_, N * p, rtol=1e-9)
    assert model.score(x) == pytest.approx(likelihood, rel=1e-9)


def test_the_parameters_of_many_rows_are_found() -> None:
    model = Mixture(Binomial(N), 2, random_state=0).fit(rows(20_000))
    np.testing.assert_allclose(model.weights_, WEIGHTS, atol=0.02)
    np.testing.assert_allclose(model.probabilities_, P, atol=0.02)


def test_one_trial_is_the_bernoulli_family() -> None:
    x = (rows() > 5).astype(float)
    params = ProbabilityParams(P)
    found = Binomial().log_density(params, x)
    np.testing.assert_allclose(found, Bernoulli().log_density(params, x), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("n", [1, 2, 50, 1000, 10**9, 2**53])
def test_the_base_measure_is_a_binomial_coefficient(n: int) -> None:
    for x in (0, 1, n // 2 if n <= 1000 else 3, n - 1, n):
        found = Binomial(n).log_base_measure(np.array([[float(x)]]))
        np.testing.assert_allclose(found, log(comb(n, x)), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("value", [0.0, float(N)])
def test_rows_at_an_end_of_the_support_are_limited_and_counted(value: float) -> None:
    x = np.full((20, 2), value)
    model = Mixture(Binomial(N), 1).fit(x)
    np.testing.assert_allclose(model.means_, value, atol=1e-6)
    limit = LEAST if value == 0.0 else 1.0 - LEAST
    np.testing.assert_allclose(model.probabilities_, limit, rtol=1e-15)
    np.testing.assert_allclose(model.score_samples(x), 0.0, atol=1e-6)
    assert model.n_degenerate_ > 0
    other = model.score_samples(np.full((1, 2), N - value))
    np.testing.assert_allclose(other, 2 * N * np.log(LEAST), rtol=1e-7)


@pytest.mark.parametrize("value", [-1.0, 0.5, N + 1.0])
def test_other_values_are_refused_by_row(value: float) -> None:
    x = rows()
    x[16, 1] = value
    with pytest.raises(InvalidInputError, match=r"row 17, column 2 .*whole numbers from 0 to 12"):
        Mixture(Binomial(N), 2).fit(x)


@pytest.mark.parametrize("trials", [0, -3, 2.5, True, 2**53 + 1, "3"])
def test_other_numbers_of_trials_are_refused(trials: Any) -> None:
    with pytest.raises(InvalidInputError, match="trials is "):
        Binomial(trials)


def test_extreme_probabilities() -> None:
    params = ProbabilityParams(np.array([[LEAST], [1.0 - LEAST]]))
    found = Binomial(N).log_density(params, np.array([[0.0], [N]]))
    far = N * np.log(LEAST)
    np.testing.assert_allclose(found, [[0.0, far], [far, 0.0]], rtol=1e-7, atol=1e-6)


def test_divergence_counts_trials_and_moves_rows_half_way_to_the_mean() -> None:
    x, weight = np.array([[0.0], [8.0]]), np.array([1.0, 3.0])
    found = Binomial(N).divergence(x, x, weight)
    p, q = 3.0 / N, 7.0 / N  # half of the way to the mean of 6
    there = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    back = q * np.log(q / p) + (1 - q) * np.log((1 - q) / (1 - p))
    np.testing.assert_allclose(found, [[0.0, N * there], [N * back, 0.0]], atol=1e-12)
