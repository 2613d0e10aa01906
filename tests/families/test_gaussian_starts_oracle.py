"""Gaussian components at the start of a fit against plain formulae."""

from __future__ import annotations

import numpy as np
import pytest

from mixfold import Gaussian

STRUCTURES = ["full", "tied", "diag", "spherical"]
ROUNDING = 2.0**-52


@pytest.mark.parametrize("covariance", [*STRUCTURES, "factor"])
def test_starts_have_the_spread_of_the_rows_and_floors_of_rows_and_centers(covariance: str) -> None:
    rng = np.random.default_rng(8)
    x, weight = rng.normal(size=(40, 3)), rng.uniform(0.2, 3.0, size=40)
    wide, near = 100.0 * rng.normal(size=(4, 3)), 0.01 * rng.normal(size=(4, 3))
    family = Gaussian(covariance, floor=0.05, rank=1 if covariance == "factor" else None)
    share = weight / weight.sum()
    away = x - share @ x
    scatter = (share[:, None] * away).T @ away
    variances = np.diag(scatter)
    expected = {"full": scatter, "tied": scatter, "diag": variances, "spherical": variances.mean()}
    for centers in (wide, near):
        found = family.around(centers, x, weight)
        np.testing.assert_array_equal(found.means, centers)
        floors = 0.05 * (variances + centers.var(axis=0))
        if covariance == "spherical":
            floors = floors.mean(keepdims=True)
        if covariance == "factor":
            noise = found.noise_variance
            if centers is wide:
                np.testing.assert_allclose(noise, np.broadcast_to(floors, (4, 3)), rtol=1e-12)
            else:
                both = noise + np.square(found.loadings).sum(axis=1)
                np.testing.assert_allclose(both, np.broadcast_to(variances, (4, 3)), rtol=1e-12)
            continue
        exact = expected[covariance]
        if centers is wide:
            exact = np.diag(floors) if covariance in ("full", "tied") else floors
        shape = {"tied": (3, 3), "spherical": (4,)}.get(covariance, (4, *exact.shape))
        covariances = family.covariances(found)
        assert covariances.shape == shape
        np.testing.assert_allclose(
            covariances, np.broadcast_to(exact, shape), rtol=1e-12, atol=1e-15
        )


@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "factor"])
def test_starts_of_constant_columns_are_as_wide_as_rounding(covariance: str) -> None:
    rng = np.random.default_rng(9)
    x = np.column_stack([np.full(20, 5e10), rng.normal(size=20)])
    centers = x[[0, 5, 9]]
    family = Gaussian(covariance, floor=0.0, rank=1 if covariance == "factor" else None)
    found = family.around(centers, x, np.ones(20))
    variances = np.square(family.standard_deviations(found))[:, 0]
    np.testing.assert_allclose(variances, (ROUNDING * 5e10) ** 2, rtol=1e-9)


@pytest.mark.parametrize("structure", [{}, {"covariance": "factor", "rank": 1}])
def test_distances_of_starts_are_in_deviations(structure: dict[str, object]) -> None:
    rng = np.random.default_rng(10)
    x, weight = rng.normal(size=(15, 3)) * [1.0, 10.0, 0.0], rng.uniform(0.1, 2.0, size=15)
    family = Gaussian(**structure)
    centre = np.average(x, axis=0, weights=weight)
    deviations = np.sqrt(np.average(np.square(x - centre), axis=0, weights=weight))
    deviations[2] = 1.0  # that of a constant column
    np.testing.assert_allclose(family.deviations_of(x, weight), deviations, rtol=1e-12)
    centers = x[:4] + np.array([1.0, 2.0, 3.0])
    away = (x[:, None] - centers) / deviations
    expected = 0.5 * np.square(away).sum(axis=2)
    np.testing.assert_allclose(family.divergence(x, centers, weight), expected, rtol=1e-10)
