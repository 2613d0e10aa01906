"""Gaussians of rows some of whose columns are on a logarithmic scale, against scipy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import lognorm, multivariate_normal

from mixfold import Gaussian, Mixture
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.estimators.saving import load
from mixfold.families.gaussian import GaussianParams
from mixfold.families.product import Product
from mixfold.families.transformed_gaussian import TransformedGaussian

MEAN = np.array([0.3, -1.0, 2.0])
COVARIANCE = np.array([[0.5, 0.3, -0.1], [0.3, 0.8, 0.2], [-0.1, 0.2, 0.4]])
FAMILY = TransformedGaussian((0, 2))
PARAMS = GaussianParams(MEAN[None], np.linalg.cholesky(COVARIANCE)[None])
ROW = np.array([1.7, -0.4, 9.0])


def draw(n: int, seed: int = 0) -> Array:
    y = np.random.default_rng(seed).multivariate_normal(MEAN, COVARIANCE, size=n)
    return np.column_stack([np.exp(y[:, 0]), y[:, 1], np.exp(y[:, 2])])


def joint(x: Array, chosen: list[int]) -> float:
    """The density of some of the cells, with the Jacobian of the logarithms."""
    y = np.array([np.log(x[j]) if j in (0, 2) else x[j] for j in chosen])
    normal = multivariate_normal(MEAN[chosen], COVARIANCE[np.ix_(chosen, chosen)])
    return float(normal.logpdf(y) - sum(np.log(x[j]) for j in chosen if j in (0, 2)))


@pytest.mark.parametrize("observed", [[0, 1, 2], [0, 1], [1, 2], [2], [1], [0, 2]])
def test_the_density_of_observed_cells_is_that_of_their_marginal(observed: list[int]) -> None:
    row = np.full(3, np.nan)
    row[observed] = ROW[observed]
    found = FAMILY.with_missing().log_density(PARAMS, row[None])
    assert found[0, 0] == pytest.approx(joint(ROW, observed), rel=1e-12)


def test_one_column_is_log_normal() -> None:
    params = GaussianParams(np.array([[0.4]]), np.array([[[0.6]]]))
    found = TransformedGaussian((0,)).log_density(params, np.array([[2.5]]))
    assert found[0, 0] == pytest.approx(lognorm.logpdf(2.5, 0.6, scale=np.exp(0.4)), rel=1e-12)


def test_a_missing_cell_has_its_conditional_mean() -> None:
    row = np.array([[ROW[0], ROW[1], np.nan]])
    found = FAMILY.with_missing().expected_cells(PARAMS, row, np.ones((1, 1)))

    def density(z: float) -> float:
        return float(np.exp(joint(np.array([ROW[0], ROW[1], z]), [0, 1, 2])))

    total, first = quad(density, 0, 200)[0], quad(lambda z: z * density(z), 0, 200)[0]
    assert found[0, 2] == pytest.approx(first / total, rel=1e-6)
    np.testing.assert_array_equal(found[0, :2], row[0, :2])


def test_draws_have_the_conditional_distribution() -> None:
    n, rng = 40_000, np.random.default_rng(1)
    rows = np.tile([np.nan, ROW[1], np.nan], (n, 1))
    drawn = FAMILY.with_missing().sample_cells(PARAMS, rows, np.zeros(n, dtype=int), rng)
    slope = COVARIANCE[[0, 2], 1] / COVARIANCE[1, 1]
    rest = COVARIANCE[np.ix_([0, 2], [0, 2])] - np.outer(slope, COVARIANCE[[0, 2], 1])
    logs = np.log(drawn[:, [0, 2]])
    np.testing.assert_allclose(
        logs.mean(axis=0), MEAN[[0, 2]] + slope * (ROW[1] - MEAN[1]), atol=0.02
    )
    np.testing.assert_allclose(np.cov(logs.T), rest, atol=0.02)


def test_one_component_has_the_moments_of_the_transformed_rows() -> None:
    x = draw(500)
    model = Mixture(FAMILY, 1, learner="em").fit(x)
    y = np.column_stack([np.log(x[:, 0]), x[:, 1], np.log(x[:, 2])])
    np.testing.assert_allclose(model.transformed_means_[0], y.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(model.transformed_covariances_[0], np.cov(y.T, ddof=0), rtol=1e-8)
    above = np.exp(y.mean(axis=0) + 0.5 * y.var(axis=0))
    np.testing.assert_allclose(model.means_[0, [0, 2]], above[[0, 2]], rtol=1e-10)
    assert model.means_[0, 1] == pytest.approx(x[:, 1].mean())


def test_logarithms_that_the_user_takes_have_the_same_likelihood() -> None:
    x = draw(300)
    x[np.random.default_rng(2).random(x.shape) < 0.2] = np.nan
    y = np.column_stack([np.log(x[:, 0]), x[:, 1], np.log(x[:, 2])])
    model = Mixture(FAMILY, 2, learner="em", random_state=0).fit(x)
    plain = Mixture(Gaussian(), 2, learner="em", init=model.params_, max_iter=1).fit(y)
    before = plain.history_.log_likelihood[0]
    assert model.score(x) == pytest.approx(before - np.nansum(y[:, [0, 2]]) / len(y), rel=1e-10)


def test_marginal_and_conditional_keep_the_scales() -> None:
    model = Mixture(Product({(0, 1, 2): FAMILY}), 1, learner="em").fit(draw(200))
    smaller = model.marginal([2, 1])
    x = draw(5, seed=3)
    holes = x.copy()
    holes[:, 0] = np.nan
    np.testing.assert_allclose(
        smaller.score_samples(x[:, [2, 1]]), model.score_samples(holes), rtol=1e-10
    )
    given = model.conditional({1: x[0, 1], 2: x[0, 2]})
    assert given.means_[0, 0] == pytest.approx(model.impute(holes)[0, 0], rel=1e-10)


def test_a_saved_model_is_the_same(tmp_path: Path) -> None:
    x = draw(100)
    model = Mixture(FAMILY, 2, random_state=0).fit(x)
    model.save(tmp_path / "m.mixfold")
    np.testing.assert_array_equal(
        load(tmp_path / "m.mixfold").score_samples(x), model.score_samples(x)
    )


@pytest.mark.parametrize("logs", [(0, 0), (-1,), [0], (0.5,), (True,)])
def test_bad_columns_are_refused(logs: object) -> None:
    with pytest.raises(InvalidInputError, match="logs is"):
        TransformedGaussian(logs)  # type: ignore[arg-type]


def test_a_column_that_the_data_do_not_have_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="give numbers below 2"):
        Mixture(FAMILY, 1).fit(draw(10)[:, :2])


def test_a_value_without_logarithm_is_refused_by_its_place() -> None:
    x = draw(10)
    x[4, 2] = 0.0
    with pytest.raises(InvalidInputError, match="values must be above 0"):
        Mixture(FAMILY, 1).fit(x)


def test_other_families_cannot_be_transformed() -> None:
    with pytest.raises(InvalidInputError, match="give a Gaussian family"):
        TransformedGaussian((0,), "poisson")  # type: ignore[arg-type]
