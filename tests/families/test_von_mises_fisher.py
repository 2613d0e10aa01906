"""Von Mises-Fisher components and Bessel functions, against scipy, mpmath and plain EM."""

from __future__ import annotations

from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ive, softmax

from mixfold import EM, Mixture, VonMises, VonMisesFisher
from mixfold.core.errors import InvalidInputError
from mixfold.core.statistics import Block
from mixfold.families import _bessel_ratios
from mixfold.families._bessel_ratios import bessel_terms, concentrations, resultant_lengths
from mixfold.families.von_mises import VonMisesParams
from mixfold.families.von_mises_fisher import LEAST, MOST, VonMisesFisherParams
from mixfold.models.mixture_model import MixtureParams
from mixfold.testing import families

DIMENSIONS = [2, 3, 4, 7, 30, 100, 61, 62, 63, 1000]
KAPPA = np.array([LEAST, 1e-4, 0.3, 1.0, 5.0, 20.0, 29.0, 30.0, 31.0, 100.0, 1e3, 1e5, MOST])


def unit(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


RNG = np.random.default_rng(5)
X = unit(
    np.concatenate(
        [RNG.normal([3.0, 0.0, 1.0], 1.0, (150, 3)), RNG.normal([0.0, -2.0, 0.0], 0.7, (100, 3))]
    )
)


# Bessel functions


@pytest.mark.parametrize("d", DIMENSIONS)
def test_bessel_functions_are_those_of_exact_arithmetic(d: int) -> None:
    logs, ratios = bessel_terms(0.5 * d - 1.0, KAPPA)
    order = mpmath.mpf(d) / 2 - 1
    with mpmath.workdps(40):
        for kappa, found, ratio in zip(map(mpmath.mpf, KAPPA), logs, ratios, strict=True):
            here, next_one = mpmath.besseli(order, kappa), mpmath.besseli(order + 1, kappa)
            expected = float(mpmath.log(here) - order * mpmath.log(kappa))
            assert found == pytest.approx(expected, rel=1e-14, abs=2e-13)
            assert ratio == pytest.approx(float(next_one / here / kappa), rel=1e-14)


def test_bessel_functions_are_scipys_where_these_are_numbers() -> None:
    for order in (0.0, 0.5, 3.0, 24.5):
        kappa = np.geomspace(0.5, 500.0, 200)
        logs = np.log(ive(order, kappa)) + kappa - order * np.log(kappa)
        found, ratios = bessel_terms(order, kappa)
        np.testing.assert_allclose(found, logs, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(ratios * kappa, ive(order + 1, kappa) / ive(order, kappa), 1e-12)


# the solver


@pytest.mark.parametrize("d", DIMENSIONS)
def test_concentrations_invert_lengths_over_the_whole_domain(d: int) -> None:
    """Where the concentration is large, rounding of the length is magnified."""
    kappa = np.concatenate([np.geomspace(LEAST, MOST, 400), [29.99, 30.0, 30.01]])
    found = concentrations(d, resultant_lengths(d, kappa))
    assert (np.abs(found / kappa - 1.0) < 1e-12 + 2e-15 * kappa).all()


@settings(max_examples=300, deadline=None)
@given(st.floats(1e-9, 1.0 - 6e-9), st.integers(2, 1000))
def test_every_length_has_its_concentration(length: float, d: int) -> None:
    length = min(length, float(resultant_lengths(d, np.array([MOST]))[0]))
    kappa = concentrations(d, np.array([length]))
    assert resultant_lengths(d, kappa)[0] == pytest.approx(length, rel=1e-14, abs=1e-15)


def test_convergence_is_quadratic(monkeypatch: pytest.MonkeyPatch) -> None:
    kappa, d = np.geomspace(1e-4, 50.0, 200), 5
    lengths, errors = resultant_lengths(d, kappa), []
    for iterations in range(5):
        monkeypatch.setattr(_bessel_ratios, "ITERATIONS", iterations)
        errors.append(np.abs(concentrations(d, lengths) / kappa - 1.0).max())
    assert errors[0] < 0.05
    for before, after in pairwise(errors):
        assert after < 1.5 * before**2 + 1e-12


# the family


@pytest.mark.parametrize("d", [2, 3, 5, 30])
def test_density_is_scipys(d: int) -> None:
    directions = unit(RNG.normal(size=(4, d)))
    params = VonMisesFisherParams(directions, np.array([0.3, 4.0, 150.0, 1e5]))
    x = unit(np.concatenate([RNG.normal(size=(30, d)), directions + 0.01]))
    found = VonMisesFisher().log_density(params, x)
    expected = VonMisesFisher().scipy_log_density(params, x)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("d", [2, 3])
def test_density_has_total_one_on_the_sphere(d: int) -> None:
    families.density_has_total_one(VonMisesFisher(), 2, d, np.random.default_rng(d))


def test_the_smallest_concentration_is_uniform() -> None:
    params = VonMisesFisherParams(np.eye(1, 3), np.array([LEAST]))
    found = VonMisesFisher().log_density(params, X)
    np.testing.assert_allclose(found, -np.log(4.0 * np.pi), rtol=1e-7)


def test_two_columns_are_the_von_mises_family() -> None:
    angles = RNG.vonmises(1.0, 3.0, (200, 1))
    x = np.hstack([np.cos(angles), np.sin(angles)])
    mu = VonMisesFisherParams(np.array([[np.cos(0.5), np.sin(0.5)]]), np.array([2.5]))
    expected = VonMises().log_density(VonMisesParams(np.array([[0.5]]), np.array([[2.5]])), angles)
    np.testing.assert_allclose(VonMisesFisher().log_density(mu, x), expected, rtol=1e-10)
    one, other = Mixture("von-mises-fisher").fit(x), Mixture("von-mises").fit(angles)
    assert one.concentrations_[0] == pytest.approx(other.concentrations_[0, 0], rel=1e-9)
    assert np.arctan2(*one.means_[0, ::-1]) == pytest.approx(other.means_[0, 0], rel=1e-9)


def test_one_component_is_scipys_fit() -> None:
    model = Mixture("von-mises-fisher").fit(X)
    direction, kappa = stats.vonmises_fisher.fit(X)
    np.testing.assert_allclose(model.means_[0], direction, rtol=1e-10)
    assert model.concentrations_[0] == pytest.approx(kappa, rel=1e-7)


def test_mixture_is_plain_em() -> None:
    weights, kappa = np.array([0.4, 0.6]), np.array([2.0, 5.0])
    mu = unit(np.array([[1.0, 1.0, 0.0], [0.0, -1.0, 1.0]]))
    start = MixtureParams(weights, VonMisesFisherParams(mu, kappa))
    learner = EM(tol=0.0, max_iter=6, accelerate=False)
    model = Mixture("von-mises-fisher", 2, init=start, learner=learner).fit(X)
    for _ in range(6):
        pairs = zip(mu, kappa, strict=True)
        logs = np.stack([stats.vonmises_fisher(m, c).logpdf(X) for m, c in pairs], axis=1)
        r = softmax(np.log(weights) + logs, axis=1)
        mean = r.T @ X / r.sum(axis=0)[:, None]
        weights, mu = r.mean(axis=0), unit(mean)
        lengths = np.linalg.norm(mean, axis=1)
        for _ in range(50):  # in three dimensions the length is 1 / tanh(kappa) - 1 / kappa
            kappa = 1.0 / (1.0 / np.tanh(kappa) - lengths)
    components = model.params_.components
    np.testing.assert_allclose(model.params_.weights, weights, rtol=1e-7)
    np.testing.assert_allclose(components.directions, mu, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(components.concentrations, kappa, rtol=1e-6)


@pytest.mark.parametrize("d", [3, 50, 1000])
def test_the_parameters_of_many_rows_are_found(d: int) -> None:
    truth = VonMisesFisherParams(np.eye(2, d), np.array([10.0, 30.0]) * np.sqrt(d))
    x = VonMisesFisher().sample(truth, np.repeat([0, 1], [3000, 1000]), np.random.default_rng(d))
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1.0, rtol=1e-12)
    model = Mixture("von-mises-fisher", 2, random_state=0).fit(x)
    order = np.argsort(-model.weights_)
    np.testing.assert_allclose(model.weights_[order], [0.75, 0.25], atol=0.01)
    np.testing.assert_allclose(model.concentrations_[order], truth.concentrations, rtol=0.07)
    assert ((model.means_[order] * truth.directions).sum(axis=1) > 0.95).all()


@pytest.mark.parametrize("kappa", [LEAST, 1.0, 1e4, MOST])
def test_samples_have_their_concentration(kappa: float) -> None:
    params = VonMisesFisherParams(np.eye(1, 4), np.array([kappa]))
    x = VonMisesFisher().sample(params, np.zeros(40_000, dtype=int), np.random.default_rng(2))
    rest = 0.5 * np.square(x - params.directions).sum(axis=1)  # 1 - cosine
    expected = 1.0 - resultant_lengths(4, np.array([kappa]))[0]
    assert rest.mean() == pytest.approx(expected, abs=5.0 * rest.std() / 200.0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_of_other_lengths_are_refused(dtype: type) -> None:
    for bad in (0.9, -1e30, 0.0):
        x: np.ndarray = X.astype(dtype)
        x[4] = [0.0, bad, 0.0]
        for call in (Mixture("von-mises-fisher", 2).fit, Mixture("von-mises-fisher").partial_fit):
            with pytest.raises(InvalidInputError, match=r"row 5, .*rows must be .* of length 1"):
                call(x)
    Mixture("von-mises-fisher", 2, random_state=0).fit(X.astype(dtype))


def test_one_column_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="at least 2 columns"):
        Mixture("von-mises-fisher", 2).fit(np.ones((20, 1)))


def test_directions_of_other_lengths_are_refused() -> None:
    params = VonMisesFisherParams(np.array([[0.6, 0.7]]), np.ones(1))
    with pytest.raises(InvalidInputError, match=r"length 0\.92.*: it must be 1"):
        VonMisesFisher().check_params(params, 1, 2)


def test_equal_rows_are_at_the_limit() -> None:
    x = np.concatenate([X, np.tile([0.0, 0.6, 0.8], (len(X), 1))])
    blocks = VonMisesFisher().blocks_of(x, np.repeat(np.eye(2), len(X), axis=0))
    components, count_degenerate = VonMisesFisher().maximize(blocks)
    assert count_degenerate == 1
    start = MixtureParams(np.full(2, 0.5), components)
    model = Mixture("von-mises-fisher", 2, init=start, learner=EM(max_iter=20)).fit(x)
    assert np.isfinite(model.score_samples(x)).all()
    assert model.concentrations_.max() == pytest.approx(MOST, rel=1e-6)
    found = VonMisesFisher().degenerate(model.params_.components, model.weights_)
    np.testing.assert_array_equal(found.all(axis=1), model.concentrations_ > 0.9 * MOST)


def test_statistics_out_of_their_domain_are_at_a_limit() -> None:
    """No resultant, which is a uniform distribution, and one longer than 1 by rounding."""
    means = np.array([[0.0, 0.0], [1.0 + 1e-12, 0.0], [0.0, -0.5]])
    params, count_degenerate = VonMisesFisher().maximize((Block.of_means(np.ones(3), means),))
    assert count_degenerate == 1
    np.testing.assert_allclose(params.concentrations[:2], [LEAST, MOST], rtol=1e-6)
    np.testing.assert_array_equal(params.directions, [[1.0, 0.0], [1.0, 0.0], [0.0, -1.0]])


def test_coordinates_beyond_the_limits_are_at_them() -> None:
    like = VonMisesFisherParams(np.eye(2, 3), np.ones(2))
    params = VonMisesFisher().constrained(np.array([[1e300, 0.0, 0.0], [0.0, 0.0, 0.0]]), like)
    np.testing.assert_allclose(params.concentrations, [MOST, LEAST])
    np.testing.assert_array_equal(params.directions, np.eye(1, 3).repeat(2, axis=0))


def test_divergence_by_hand() -> None:
    found = VonMisesFisher().divergence(
        np.array([[1.0, 0.0]]), np.array([[3.0, 0.0], [0.0, 1.0], [-2.0, 0.0]]), np.ones(1)
    )
    np.testing.assert_allclose(found, [[0.0, 1.0, 2.0]], atol=1e-12)
