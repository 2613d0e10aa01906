"""Negative binomial components, against scipy.stats, EM in plain NumPy, and other families."""

from __future__ import annotations

from math import comb, log

import numpy as np
import pytest
from scipy import stats

from mixfold import EM, Geometric, Mixture, NegativeBinomial, Poisson
from mixfold.core.errors import InvalidInputError
from mixfold.families.mean_params import MeanParams
from mixfold.models.mixture_model import MixtureParams
from plain_em import means_of, plain_em

SIZE = 2.5
MEANS = np.array([[1.0, 9.0], [12.0, 0.5]])
WEIGHTS = np.array([0.4, 0.6])


def rows(n: int = 400) -> np.ndarray:
    rng = np.random.default_rng(3)
    means = MEANS[rng.choice(2, size=n, p=WEIGHTS)]
    found = stats.nbinom.rvs(SIZE, SIZE / (SIZE + means), random_state=rng)
    return np.asarray(found, dtype=np.float64)


def log_density(x: np.ndarray, means: np.ndarray) -> np.ndarray:
    found = stats.nbinom.logpmf(x[:, None], SIZE, SIZE / (SIZE + means))
    return np.asarray(found.sum(axis=2))


def at(mean: float) -> MeanParams:
    return MeanParams(np.array([[mean]]))


def test_passes_of_em_are_those_in_numpy() -> None:
    x = rows()
    start = MixtureParams(np.array([0.5, 0.5]), MeanParams(np.array([[2.0, 4.0], [6.0, 3.0]])))
    learner = EM(tol=0.0, max_iter=7)
    model = Mixture(NegativeBinomial(SIZE), 2, init=start, learner=learner).fit(x)
    weights, means, likelihood = plain_em(
        lambda theta: log_density(x, theta), means_of(x), [0.5, 0.5], start.components.means, 7
    )
    np.testing.assert_allclose(model.weights_, weights, rtol=1e-9)
    np.testing.assert_allclose(model.means_, means, rtol=1e-9)
    np.testing.assert_allclose(model.probabilities_, SIZE / (SIZE + means), rtol=1e-9)
    assert model.score(x) == pytest.approx(likelihood, rel=1e-9)


def test_the_parameters_of_many_rows_are_found() -> None:
    model = Mixture(NegativeBinomial(SIZE), 2, random_state=0).fit(rows(20_000))
    np.testing.assert_allclose(model.weights_, WEIGHTS, atol=0.03)
    np.testing.assert_allclose(model.means_, MEANS, rtol=0.1)


def test_counts_that_vary_more_have_a_higher_likelihood_than_as_poisson_counts() -> None:
    x = stats.nbinom.rvs(0.5, 0.1, size=(500, 1), random_state=0).astype(float)
    scores = {
        size: Mixture(NegativeBinomial(size), 1).fit(x).score(x) for size in (0.1, 0.5, 5.0, 1e6)
    }
    assert max(scores, key=lambda size: scores[size]) == 0.5
    assert scores[1e6] == pytest.approx(Mixture("poisson", 1).fit(x).score(x), rel=1e-3)


def test_size_one_is_the_geometric_family() -> None:
    x = rows()
    params = MeanParams(MEANS)
    one = NegativeBinomial(1.0).log_density(params, x)
    np.testing.assert_allclose(one, Geometric().log_density(params, x), rtol=1e-12, atol=1e-12)


def test_a_large_size_is_nearly_the_poisson_family() -> None:
    x = np.arange(12.0)[:, None]
    found = NegativeBinomial(1e6).log_density(at(3.0), x)
    np.testing.assert_allclose(found, Poisson().log_density(at(3.0), x), atol=1e-4)
    exact = stats.nbinom.logpmf(x, 1e6, 1e6 / (1e6 + 3.0))
    np.testing.assert_allclose(found, exact, atol=1e-8)


def test_the_base_measure_is_a_binomial_coefficient() -> None:
    for x in (0, 1, 7, 1000, 10**9):
        found = NegativeBinomial(5.0).log_base_measure(np.array([[float(x)]]))
        np.testing.assert_allclose(found, log(comb(x + 4, x)), rtol=1e-10, atol=1e-12)
    # x + 4 choose 4 is x**4 / 4! where x is large
    huge = NegativeBinomial(5.0).log_base_measure(np.array([[1e60]]))
    np.testing.assert_allclose(huge, 4.0 * np.log(1e60) - np.log(24.0), rtol=1e-14)


@pytest.mark.parametrize("size", [1e-6, 0.3, 4.0, 1e6])
@pytest.mark.parametrize("mean", [1e-60, 1e-3, 1e60])
def test_densities_of_extreme_means_are_finite(size: float, mean: float) -> None:
    """At zero they are -size log(1 + mean / size)."""
    family = NegativeBinomial(size)
    x = np.array([[0.0], [1.0], [1e60]])
    found = family.log_density(at(mean), x)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[0, 0], -size * np.log1p(mean / size), rtol=1e-12, atol=1e-12)
    drawn = family.sample(at(mean), np.zeros(50, dtype=int), np.random.default_rng(0))
    assert (np.isfinite(drawn) & (drawn == drawn.round()) & (drawn >= 0)).all()


def test_samples_of_large_means_have_their_moments() -> None:
    for mean in (1e14, 1e17):  # on both sides of the largest Poisson rate
        x = NegativeBinomial(4.0).sample(
            at(mean), np.zeros(4000, dtype=int), np.random.default_rng(1)
        )
        np.testing.assert_allclose(x.mean(), mean, rtol=0.05)
        np.testing.assert_allclose(x.std(), 0.5 * mean, rtol=0.05)


def test_zeros_are_floored_and_counted() -> None:
    model = Mixture(NegativeBinomial(SIZE), 1).fit(np.zeros((20, 1)))
    assert model.n_degenerate_ > 0
    np.testing.assert_allclose(model.score_samples([[0.0]]), 0.0, atol=1e-12)


@pytest.mark.parametrize("value", [-1.0, 0.5])
def test_values_outside_the_support_are_refused_by_row(value: float) -> None:
    x = rows()
    x[16, 1] = value
    with pytest.raises(InvalidInputError, match=r"row 17, column 2 .*whole numbers >= 0"):
        Mixture("negative-binomial", 2).fit(x)


@pytest.mark.parametrize("size", [0.0, -1.0, 1e-7, 1e7, float("nan"), "3"])
def test_sizes_outside_their_limits_are_refused(size: float) -> None:
    with pytest.raises(InvalidInputError, match="size is "):
        NegativeBinomial(size)


def test_divergence_is_the_likelihood_that_is_lost() -> None:
    x, centers = np.array([[1.0, 4.0], [0.0, 3.0]]), np.array([[2.0, 3.0], [9.0, 2.0]])
    tiny = np.maximum(x, 1e-12)
    best = stats.nbinom.logpmf(x, SIZE, SIZE / (SIZE + tiny)).sum(axis=1)
    found = NegativeBinomial(SIZE).divergence(x, centers, np.ones(2))
    np.testing.assert_allclose(found, best[:, None] - log_density(x, centers), atol=1e-9)
