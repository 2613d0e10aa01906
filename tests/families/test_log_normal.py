"""Log-normal components, against scipy.stats, plain EM and Gaussians of the logarithms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from mixfold import EM, Gaussian, Mixture
from mixfold.core.errors import DegenerateComponentsWarning
from mixfold.families.gaussian import GaussianParams
from mixfold.families.log_normal import LEAST_DEVIATION, LogNormal, LogNormalParams
from mixfold.models.mixture_model import MixtureParams
from real_columns import assert_is_plain_em, assert_learns_tied_rows, assert_refused

RNG = np.random.default_rng(5)
X = np.exp(
    np.concatenate([RNG.normal([0.0, 2.0], 0.5, (150, 2)), RNG.normal([3.0, -1.0], 0.8, (100, 2))])
)
START = LogNormalParams(np.array([[0.5, 1.0], [2.0, 0.0]]), np.array([[1.0, 0.7], [0.6, 1.2]]))


def log_density(x: Any, m: Any, s: Any) -> Any:
    return stats.lognorm.logpdf(x, s, scale=np.exp(m))


def weighted_fit(x: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = np.average(np.log(x), axis=0, weights=r)
    return mean, np.sqrt(np.average((np.log(x) - mean) ** 2, axis=0, weights=r))


def test_mixture_is_plain_em() -> None:
    assert_is_plain_em(LogNormal(), X, START, log_density, weighted_fit)


def test_mixture_is_a_gaussian_mixture_of_logarithms() -> None:
    learner = EM(max_iter=30)
    weights = np.full(2, 0.5)
    logs = GaussianParams(START.log_means, START.log_deviations)
    one = Mixture("log-normal", 2, init=MixtureParams(weights, START), learner=learner).fit(X)
    other = Mixture(Gaussian("diag"), 2, init=MixtureParams(weights, logs), learner=learner)
    other.fit(np.log(X))
    np.testing.assert_allclose(one.log_means_, other.means_, rtol=1e-9)
    np.testing.assert_allclose(one.log_deviations_, np.sqrt(other.covariances_), rtol=1e-9)
    expected = other.score_samples(np.log(X)) - np.log(X).sum(axis=1)
    np.testing.assert_allclose(one.score_samples(X), expected, rtol=1e-9, atol=1e-9)


def test_one_component_is_scipys_fit() -> None:
    model = Mixture("log-normal").fit(X)
    for j in range(2):
        s, _, scale = stats.lognorm.fit(X[:, j], floc=0.0)
        assert model.log_deviations_[0, j] == pytest.approx(s, rel=1e-5)
        assert model.log_means_[0, j] == pytest.approx(np.log(scale), rel=1e-5)
    expected = stats.lognorm.mean(model.log_deviations_, scale=np.exp(model.log_means_))
    np.testing.assert_allclose(model.means_, expected)


@pytest.mark.parametrize("factor", [1e-50, 1e-10, 1e50])
def test_logarithms_are_moved_by_the_unit(factor: float) -> None:
    one = Mixture("log-normal", 2, random_state=0).fit(X)
    other = Mixture("log-normal", 2, random_state=0).fit(factor * X)
    np.testing.assert_allclose(other.log_means_, np.log(factor) + one.log_means_, rtol=1e-6)
    np.testing.assert_allclose(other.log_deviations_, one.log_deviations_, rtol=1e-6)


def test_small_deviations_far_from_one_do_not_cancel() -> None:
    """Logarithms of about 115 with a deviation of 0.001: squares differ in the tenth digit."""
    x = 1e50 * np.exp(0.001 * RNG.standard_normal((500, 1)))
    model = Mixture("log-normal").fit(x)
    assert model.log_deviations_[0, 0] == pytest.approx(np.log(x / 1e50).std(), rel=1e-6)


@pytest.mark.parametrize("bad", [0.0, -1.0])
def test_values_outside_are_refused(bad: float) -> None:
    assert_refused(LogNormal(), X, bad, "above 0")
    assert_refused(LogNormal(), X.astype(np.float32), bad, "above 0")


@pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")
@pytest.mark.parametrize("value", [1e-59, 1.0, 3.0, 1e59])
def test_tied_rows_are_at_the_limit(value: float) -> None:
    model = assert_learns_tied_rows(LogNormal(), X, value)
    family = model._learned.model.family
    floors = family.normal.column_floors
    least = np.sqrt(np.maximum(floors, LEAST_DEVIATION**2))
    np.testing.assert_allclose(model.log_deviations_.min(axis=0), least)
    tied = model.log_deviations_ < 1.0000001 * least
    found = family.degenerate(model.params_.components, model.weights_)
    np.testing.assert_array_equal(found, tied)


@pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")
def test_values_close_to_zero_are_finite() -> None:
    x = np.concatenate([X, [[5e-324, 1e-100], [1e-61, 9e59]]])
    model = Mixture("log-normal", 2, random_state=0).fit(x)
    assert np.isfinite(model.score_samples(x)).all()
    assert np.isfinite(model.log_means_).all()


def test_amounts_in_whole_cents_have_no_components_of_single_values() -> None:
    rng = np.random.default_rng(1)
    amounts = np.concatenate([np.exp(rng.normal(2.0, 0.6, 3000)), np.full(400, 20.0)])
    x = np.maximum(np.round(amounts, 1), 0.1)[rng.permutation(3400), None]
    with pytest.warns(DegenerateComponentsWarning, match="resolution"):
        model = Mixture("log-normal", 3, random_state=0).fit(x)
    # the smallest step of the logarithm is that of 0.1 at the largest value
    assert model.log_deviations_.min() > 0.1 / x.max() / np.sqrt(12.0)


def test_limits_of_columns_stay_with_them() -> None:
    x = np.exp(np.column_stack([RNG.normal(size=300).round(1), RNG.normal(size=300)]))
    family = LogNormal().with_limits(x)
    floors = family.normal.column_floors
    assert floors is not None
    assert floors[0] > 100 * floors[1]
    assert family.of_columns([1]).normal.column_floors == floors[1]
    joined = family.of_columns([1]).join_families([family.of_columns([0])])
    assert joined is not None
    np.testing.assert_array_equal(joined.normal.column_floors, floors[::-1])
