"""Laplace components about a known location, against scipy.stats and plain EM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from mixfold import Mixture
from mixfold.core.errors import InvalidInputError
from mixfold.families._scales import FLOOR, ScaleParams
from mixfold.families.laplace import Laplace
from real_columns import assert_is_plain_em, assert_learns_tied_rows, assert_refused

RNG = np.random.default_rng(9)
LOCATION = 3.0
X = RNG.laplace(LOCATION, np.repeat([[1.0, 2.0], [9.0, 0.3]], [150, 100], axis=0))


def log_density(x: Any, scales: Any) -> Any:
    return stats.laplace.logpdf(x, LOCATION, scales)


def weighted_fit(x: np.ndarray, r: np.ndarray) -> tuple[np.ndarray]:
    return (np.average(np.abs(x - LOCATION), axis=0, weights=r),)


def test_mixture_is_plain_em() -> None:
    start = ScaleParams(np.array([[1.5, 1.5], [4.0, 1.0]]))
    assert_is_plain_em(Laplace(LOCATION), X, start, log_density, weighted_fit)


def test_one_component_is_scipys_fit() -> None:
    model = Mixture(Laplace(LOCATION)).fit(X)
    for j in range(2):
        _, scale = stats.laplace.fit(X[:, j], floc=LOCATION)
        assert model.scales_[0, j] == pytest.approx(scale, rel=1e-9)
    np.testing.assert_array_equal(model.means_, np.full((1, 2), LOCATION))


@pytest.mark.parametrize("factor", [1e-55, 1e-10, 1e55])
def test_scales_follow_the_unit(factor: float) -> None:
    one = Mixture(Laplace(LOCATION), 2, random_state=0).fit(X)
    other = Mixture(Laplace(factor * LOCATION), 2, random_state=0).fit(factor * X)
    np.testing.assert_allclose(other.scales_, factor * one.scales_, rtol=1e-3)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1e61, "0"])
def test_locations_outside_are_refused(bad: Any) -> None:
    with pytest.raises(InvalidInputError, match="location is"):
        Laplace(bad)


def test_values_outside_are_refused() -> None:
    assert_refused(Laplace(), X, 1e61, r"below 1e\+60")


def test_rows_at_the_location_are_at_the_limit() -> None:
    model = assert_learns_tied_rows(Laplace(LOCATION), X, LOCATION)
    limit = FLOOR * np.abs(X - LOCATION).mean(axis=0) / 2.0
    order = model.scales_[:, 0].argsort()
    np.testing.assert_allclose(model.scales_[order[0]], limit, rtol=1e-3)
    found = Laplace(LOCATION).degenerate(model.params_.components, model.weights_)
    assert found[order].tolist() == [[True, True], [False, False]]


def test_extreme_values_are_learned() -> None:
    x = np.concatenate([X, [[0.99e60, -0.99e60], [LOCATION, 1e-300]]])
    for location in (0.0, LOCATION, -1e60):
        model = Mixture(Laplace(location), 2, random_state=0).fit(x)
        assert np.isfinite(model.score_samples(x)).all()
        Laplace(location).check_params(model.params_.components, 2, 2)
