"""Multinomial components, against scipy.stats, EM in plain NumPy, and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from mixfold import EM, Binomial, Mixture, Multinomial
from mixfold.core.errors import InvalidInputError
from mixfold.core.statistics import Block
from mixfold.families._probabilities import LEAST, ProbabilityParams
from mixfold.models.mixture_model import MixtureParams
from plain_em import plain_em

P = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
WEIGHTS = np.array([0.35, 0.65])


def rows(n: int = 400) -> np.ndarray:
    """Rows whose sums differ."""
    rng = np.random.default_rng(3)
    totals = rng.integers(1, 15, size=n)
    p = P[rng.choice(2, size=n, p=WEIGHTS)]
    return np.asarray(rng.multinomial(totals, p), dtype=np.float64)


def log_density(x: np.ndarray, p: np.ndarray) -> np.ndarray:
    return np.asarray(stats.multinomial.logpmf(x[:, None], x.sum(axis=1)[:, None], p))


def maximizer(x: np.ndarray) -> Any:
    """The share of every outcome in all trials of a component."""

    def shares(r: np.ndarray) -> np.ndarray:
        counts = r.T @ x
        return np.asarray(counts / counts.sum(axis=1, keepdims=True))

    return shares


def test_passes_of_em_are_those_in_numpy() -> None:
    x = rows()
    first = np.array([[0.3, 0.3, 0.4], [0.4, 0.3, 0.3]])
    start = MixtureParams(np.array([0.5, 0.5]), ProbabilityParams(first))
    model = Mixture("multinomial", 2, init=start, learner=EM(tol=0.0, max_iter=9)).fit(x)
    weights, p, likelihood = plain_em(
        lambda theta: log_density(x, theta), maximizer(x), [0.5, 0.5], first, 9
    )
    np.testing.assert_allclose(model.weights_, weights, rtol=1e-9)
    np.testing.assert_allclose(model.probabilities_, p, rtol=1e-9)
    assert model.score(x) == pytest.approx(likelihood, rel=1e-9)


def test_the_parameters_of_many_rows_are_found() -> None:
    model = Mixture("multinomial", 2, random_state=0).fit(rows(20_000))
    np.testing.assert_allclose(model.weights_, WEIGHTS, atol=0.02)
    np.testing.assert_allclose(model.probabilities_, P, atol=0.02)


def test_trials_are_those_of_samples_and_means_and_do_not_change_fits() -> None:
    x = rows()
    one, many = (Mixture(Multinomial(n), 2, random_state=0).fit(x) for n in (1, 20))
    np.testing.assert_allclose(many.probabilities_, one.probabilities_, rtol=1e-6)
    assert many.score(x) == pytest.approx(one.score(x), rel=1e-9)
    np.testing.assert_allclose(many.means_, 20.0 * many.probabilities_)
    assert (many.sample(50)[0].sum(axis=1) == 20.0).all()
    assert (one.sample(50)[0].sum(axis=1) == 1.0).all()


def test_two_outcomes_are_the_binomial_family() -> None:
    x = np.random.default_rng(0).integers(0, 13, size=(50, 1)).astype(float)
    found = Multinomial().log_density(
        ProbabilityParams(np.array([[0.3, 0.7]])), np.hstack([x, 12.0 - x])
    )
    expected = Binomial(12).log_density(ProbabilityParams(np.array([[0.3]])), x)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_one_component_has_the_shares_of_outcomes_in_all_trials() -> None:
    x = np.array([[9.0, 1.0, 0.0], [0.0, 1.0, 1.0], [3.0, 5.0, 0.0]])
    model = Mixture("multinomial", 1).fit(x)
    np.testing.assert_allclose(model.probabilities_, [[0.6, 0.35, 0.05]], rtol=1e-12)
    assert model.n_degenerate_ == 0


def test_outcomes_that_do_not_occur_are_limited_and_counted() -> None:
    x = np.c_[np.full(20, 3.0), np.zeros(20), np.ones(20)]
    model = Mixture("multinomial", 1).fit(x)
    np.testing.assert_allclose(model.probabilities_, [[0.75, LEAST, 0.25]], rtol=1e-7)
    assert model.n_degenerate_ > 0
    expected = np.log(0.75) + np.log(LEAST) + np.log(2.0)
    np.testing.assert_allclose(model.score_samples([[1, 1, 0]]), expected, rtol=1e-7)


def test_rows_of_zeros_have_probability_one() -> None:
    x = np.vstack([rows(), np.zeros((30, 3))])
    model = Mixture("multinomial", 2, random_state=0).fit(x)
    np.testing.assert_allclose(model.score_samples(np.zeros((1, 3))), 0.0, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(np.zeros((1, 3)))[0], model.weights_)
    empty = Mixture("multinomial", 2, random_state=0).fit(np.zeros((20, 3)))
    np.testing.assert_allclose(empty.probabilities_, 1.0 / 3.0)


def test_rounding_below_zero_and_empty_components_leave_probabilities() -> None:
    means = np.array([[2.0, 2.0, -1e-16], [0.0, 0.0, 0.0], [2.0, 3.0, 5.0]])
    params, n_degenerate = Multinomial().maximize((Block.of_means(np.ones(3), means),))
    expected = [[0.5, 0.5, LEAST], [1 / 3, 1 / 3, 1 / 3], [0.2, 0.3, 0.5]]
    np.testing.assert_allclose(params.probabilities, expected, rtol=1e-7)
    assert n_degenerate == 2


@pytest.mark.parametrize("value", [-1.0, 0.5])
def test_other_values_are_refused_by_row(value: float) -> None:
    x = rows()
    x[16, 1] = value
    with pytest.raises(InvalidInputError, match=r"row 17, column 2 .*whole numbers >= 0"):
        Mixture("multinomial", 2).fit(x)


def test_one_column_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="at least 2 columns"):
        Mixture("multinomial", 2).fit(np.ones((20, 1)))


@pytest.mark.parametrize("trials", [0, -3, 2.5, 2**53 + 1, "3"])
def test_other_numbers_of_trials_are_refused(trials: Any) -> None:
    with pytest.raises(InvalidInputError, match="trials is "):
        Multinomial(trials)


def test_parameters_outside_their_domain_are_refused() -> None:
    Multinomial().check_params(ProbabilityParams(P), 2, 3)
    with pytest.raises(InvalidInputError, match=r"sum to 0\.9"):
        Multinomial().check_params(ProbabilityParams(0.9 * P), 2, 3)
    with pytest.raises(InvalidInputError, match=r"probabilities has 0\.0"):
        Multinomial().check_params(ProbabilityParams(np.array([[0.0, 0.5, 0.5]])), 1, 3)


def test_free_parameters_are_one_less_than_outcomes() -> None:
    x = rows()
    model = Mixture("multinomial", 2, random_state=0).fit(x)
    free = 1 + 2 * 2
    assert model.bic(x) == pytest.approx(-2 * len(x) * model.score(x) + free * np.log(len(x)))


def test_extreme_counts_have_finite_densities() -> None:
    x = np.array([[1e60 * 0.9, 0.0], [0.0, 1e15], [1.0, 0.0]])
    params = ProbabilityParams(np.array([[LEAST, 1.0 - LEAST], [0.5, 0.5]]))
    found = Multinomial().log_density(params, x)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[2], [np.log(LEAST), np.log(0.5)])


def test_divergence_counts_trials_and_moves_rows_half_way_to_the_mean() -> None:
    x, weight = np.array([[4.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), np.array([1.0, 6.0, 1.0])
    found = Multinomial().divergence(x, x[:2], weight)
    p, q = np.array([5.0, 3.0]) / 8.0, np.array([1.0, 7.0]) / 8.0  # the mean is (1/4, 3/4)
    there, back = (p * np.log(p / q)).sum(), (q * np.log(q / p)).sum()
    expected = [[0.0, 4.0 * there], [2.0 * back, 0.0], [0.0, 0.0]]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
