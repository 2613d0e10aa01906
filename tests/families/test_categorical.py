"""Categorical components, against EM in plain NumPy and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mixfold import EM, Bernoulli, Categorical, Mixture
from mixfold.core.errors import InvalidInputError
from mixfold.core.statistics import Block
from mixfold.families._probabilities import LEAST, ProbabilityParams
from mixfold.models.mixture_model import MixtureParams
from plain_em import plain_em

L = 3
P = np.array(
    [
        [[0.8, 0.1, 0.1], [0.1, 0.7, 0.2], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1]],
        [[0.1, 0.2, 0.7], [0.5, 0.2, 0.3], [0.1, 0.1, 0.8], [0.3, 0.1, 0.6]],
    ]
)
WEIGHTS = np.array([0.35, 0.65])


def rows(n: int = 400) -> np.ndarray:
    rng = np.random.default_rng(3)
    labels = rng.choice(2, size=n, p=WEIGHTS)
    drawn = [[rng.choice(L, p=P[k, j]) for j in range(P.shape[1])] for k in labels]
    return np.asarray(drawn, dtype=np.float64)


def log_density(x: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The logarithms of the probabilities of a row's levels, looked up and summed."""
    codes = x.astype(int)
    columns = range(x.shape[1])
    return np.stack([np.log([one[columns, row] for row in codes]).sum(axis=1) for one in p], axis=1)


def maximizer(x: np.ndarray) -> Any:
    """The share of every level, by component and column."""

    def shares(r: np.ndarray) -> np.ndarray:
        there = x[:, :, None] == np.arange(L)
        return np.asarray(np.einsum("nk,njl->kjl", r, there) / r.sum(axis=0)[:, None, None])

    return shares


def test_passes_of_em_are_those_in_numpy() -> None:
    x = rows()
    first = 0.5 * P + 0.5 / L
    start = MixtureParams(np.array([0.5, 0.5]), ProbabilityParams(first))
    model = Mixture(Categorical(L), 2, init=start, learner=EM(tol=0.0, max_iter=9)).fit(x)
    weights, p, likelihood = plain_em(
        lambda theta: log_density(x, theta), maximizer(x), [0.5, 0.5], first, 9
    )
    np.testing.assert_allclose(model.weights_, weights, rtol=1e-9)
    np.testing.assert_allclose(model.probabilities_, p, rtol=1e-9)
    assert model.score(x) == pytest.approx(likelihood, rel=1e-9)
    np.testing.assert_array_equal(model.modes_, p.argmax(axis=2))
    np.testing.assert_allclose(model.means_, p[:, :, 1] + 2.0 * p[:, :, 2], rtol=1e-9)


def test_the_parameters_of_many_rows_are_found() -> None:
    model = Mixture(Categorical(L), 2, random_state=0).fit(rows(8000))
    np.testing.assert_allclose(model.weights_, WEIGHTS, atol=0.04)
    np.testing.assert_allclose(model.probabilities_, P, atol=0.06)


def test_two_levels_are_the_bernoulli_family() -> None:
    x = (rows() > 0).astype(float)
    p = P[:, :, 1]
    found = Categorical().log_density(ProbabilityParams(np.stack([1.0 - p, p], axis=2)), x)
    expected = Bernoulli().log_density(ProbabilityParams(p), x)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    two, ones = (
        Mixture(family, 2, random_state=0, learner="em", n_init=3).fit(x)
        for family in (Categorical(), Bernoulli())
    )
    assert two.score(x) == pytest.approx(ones.score(x), abs=1e-3)
    assert two.bic(x) == pytest.approx(ones.bic(x), abs=2e-3 * len(x))


def test_one_column_is_allowed_and_one_component_has_the_shares_of_levels() -> None:
    x = np.repeat([0.0, 1.0, 2.0], [5, 3, 2])[:, None]
    model = Mixture(Categorical(L), 1).fit(x)
    np.testing.assert_allclose(model.probabilities_, [[[0.5, 0.3, 0.2]]], rtol=1e-12)
    assert model.n_degenerate_ == 0
    np.testing.assert_allclose(model.score_samples([[1.0]]), np.log(0.3))


def test_levels_without_rows_are_limited_and_counted() -> None:
    x = np.c_[np.zeros(20), np.full(20, 2.0)]
    model = Mixture(Categorical(L), 1).fit(x)
    expected = [[[1.0, LEAST, LEAST], [LEAST, LEAST, 1.0]]]
    np.testing.assert_allclose(model.probabilities_, expected, rtol=1e-7)
    np.testing.assert_allclose(model.probabilities_.sum(axis=2), 1.0, rtol=1e-15)
    assert model.n_degenerate_ > 0
    np.testing.assert_allclose(model.score_samples(x), 0.0, atol=1e-6)
    np.testing.assert_allclose(model.score_samples([[1, 2]]), np.log(LEAST), rtol=1e-7)


def test_rounding_below_zero_and_empty_components_leave_probabilities() -> None:
    means = np.array([[0.5, 0.5, -1e-17], [0.0, 0.0, 0.0], [0.2, 0.3, 0.5]])
    params, n_degenerate = Categorical(L).maximize((Block.of_means(np.ones(3), means),))
    expected = [[[0.5, 0.5, LEAST]], [[1 / 3, 1 / 3, 1 / 3]], [[0.2, 0.3, 0.5]]]
    np.testing.assert_allclose(params.probabilities, expected, rtol=1e-7)
    assert n_degenerate == 2


@pytest.mark.parametrize("value", [-1.0, 0.5, 3.0])
def test_other_values_are_refused_by_row(value: float) -> None:
    x = rows()
    x[16, 1] = value
    with pytest.raises(InvalidInputError, match=r"row 17, column 2 .*whole numbers from 0 to 2"):
        Mixture(Categorical(L), 2).fit(x)


@pytest.mark.parametrize("levels", [1, 0, 2.5, 2**16 + 1, "3"])
def test_other_numbers_of_levels_are_refused(levels: Any) -> None:
    with pytest.raises(InvalidInputError, match="levels is "):
        Categorical(levels)


def test_parameters_outside_their_domain_are_refused() -> None:
    family = Categorical(L)
    family.check_params(ProbabilityParams(P), 2, 4)
    with pytest.raises(InvalidInputError, match=r"sum to 0\.9"):
        family.check_params(ProbabilityParams(0.9 * P), 2, 4)
    with pytest.raises(InvalidInputError, match=r"probabilities has 0\.0"):
        family.check_params(ProbabilityParams(np.array([[[0.0, 0.5, 0.5]]])), 1, 1)


def test_free_parameters_are_one_less_than_levels() -> None:
    x = rows()
    model = Mixture(Categorical(L), 2, random_state=0).fit(x)
    free = 1 + 2 * 4 * (L - 1)
    assert model.bic(x) == pytest.approx(-2 * len(x) * model.score(x) + free * np.log(len(x)))


def test_components_are_sorted_by_the_last_level_of_the_first_column() -> None:
    model = Mixture(Categorical(L), 3, random_state=0).fit(rows())
    assert (np.diff(model.probabilities_[:, 0, -1]) >= -1e-6).all()
    coordinates = Categorical(L).unconstrained(ProbabilityParams(P))
    np.testing.assert_allclose(coordinates[:, :4], np.log(P[:, :, 2]))


def test_samples_have_every_level() -> None:
    model = Mixture(Categorical(L), 2, random_state=0).fit(rows(2000))
    drawn = model.sample(2000)[0]
    assert set(np.unique(drawn)) == {0.0, 1.0, 2.0}
    extreme = ProbabilityParams(np.array([[[1.0 - LEAST, LEAST]]]))
    labels = np.zeros(500, dtype=int)
    assert not Categorical().sample(extreme, labels, np.random.default_rng(0)).any()


def test_divergence_is_of_rows_moved_half_way_to_the_mean() -> None:
    x, weight = np.array([[0.0], [2.0]]), np.array([1.0, 3.0])
    found = Categorical(L).divergence(x, x, weight)
    p, q = np.array([5.0, 3.0]) / 8.0, np.array([1.0, 7.0]) / 8.0
    there, back = (p * np.log(p / q)).sum(), (q * np.log(q / p)).sum()
    np.testing.assert_allclose(found, [[0.0, there], [back, 0.0]], rtol=1e-12, atol=1e-15)
    between = Categorical(L).divergence(x, np.array([[0.4], [7.0]]), weight)
    np.testing.assert_array_equal(between, found)  # of the nearest levels
