"""Posteriors of Gaussian components after one row, against dense moments of both cases."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mixfold import Gaussian, Prior
from mixfold.core.conjugate import REACH
from mixfold.core.rows import Array
from mixfold.families._normal_gamma import NormalGamma
from mixfold.families._normal_wishart import NormalWishart, NormalWishartPosterior

STRUCTURES = ["full", "diag"]
K, D = 3, 4


def conjugate(covariance: str) -> NormalWishart | NormalGamma:
    found = Gaussian(covariance).conjugate
    assert isinstance(found, NormalWishart | NormalGamma)
    return found


def random_posterior(
    covariance: str, rng: np.random.Generator, k: int = K, d: int = D
) -> NormalWishartPosterior:
    """A prior about any parameters, with other degrees of freedom."""
    start = conjugate(covariance).prior(Gaussian(covariance).example(k, d, rng), Prior())
    size = start.nu.shape
    kappa, more = rng.uniform(0.3, 5.0, size=size), rng.uniform(-1.5, 9.0, size=size)
    return replace(start, kappa=kappa, nu=start.nu + more)


def parts_of(posterior: NormalWishartPosterior) -> tuple[Array, Array, Array, Array]:
    return posterior.mean, posterior.kappa, posterior.nu, posterior.scale


def matched(
    before: NormalWishartPosterior, row: Array, weight: float, c: float
) -> tuple[Array, float, float, Array]:
    """Mean, kappa, nu and V of one component with matrices, by dense moments of both cases.

    Kept are E[mu], E[Lambda], and the sums of variances of mu and of the entries of Lambda, in
    coordinates in which V is the identity before the row.
    """
    d = len(row)
    whiten = np.linalg.inv(before.scale[0])
    e = whiten @ (row - before.mean[0])
    kappa, nu = float(before.kappa[0]), float(before.nu[0])
    v = np.eye(d) + kappa * weight / (kappa + weight) * np.outer(e, e)
    cases = [
        (1.0 - c, np.zeros(d), kappa, nu, np.eye(d)),
        (c, weight / (kappa + weight) * e, kappa + weight, nu + weight, v),
    ]
    mean = sum(p * m for p, m, *_ in cases)
    precision = sum(p * n * np.linalg.inv(s) for p, _, _, n, s in cases)
    variance = spread = 0.0
    for p, m, known, n, s in cases:
        w = np.linalg.inv(s)
        variance += p * n * (np.square(w).sum() + np.trace(w) ** 2)
        variance += p * np.square(n * w - precision).sum()
        spread += p * (np.trace(s) / (known * (n - d - 1.0)) + np.square(m - mean).sum())
    nu = (np.square(precision).sum() + np.trace(precision) ** 2) / variance
    nu = max(nu, d + 1.5)
    v = nu * np.linalg.inv(precision)
    kappa = np.trace(v) / ((nu - d - 1.0) * spread)
    back = before.scale[0]
    return before.mean[0] + back @ mean, kappa, nu, back @ v @ back.T


@pytest.mark.parametrize("weight", [1.0, 0.3, 4.0])
def test_matched_posteriors_have_the_moments_of_both_cases(weight: float) -> None:
    rng = np.random.default_rng(10)
    for d in (1, 2, 4):
        posterior = random_posterior("full", rng, K, d)
        row, c = 2.0 * rng.normal(size=d), np.array([0.1, 0.6, 1.0])
        found, _ = conjugate("full").match(posterior, row, weight, c)
        for k in range(K):
            one = NormalWishartPosterior(*(part[k : k + 1] for part in parts_of(posterior)))
            mean, kappa, nu, v = matched(one, row, weight, c[k])
            np.testing.assert_allclose(found.mean[k], mean, rtol=1e-10)
            np.testing.assert_allclose(found.kappa[k], kappa, rtol=1e-10)
            np.testing.assert_allclose(found.nu[k], nu, rtol=1e-10)
            np.testing.assert_allclose(found.scale[k] @ found.scale[k].T, v, rtol=1e-9, atol=1e-11)


def test_columns_of_diagonal_posteriors_are_matched_alone() -> None:
    rng = np.random.default_rng(11)
    posterior = random_posterior("diag", rng)
    row, c = 2.0 * rng.normal(size=D), np.array([0.2, 0.7, 1.0])
    found, _ = conjugate("diag").match(posterior, row, 1.7, c)
    mean, kappa, nu, factor = parts_of(posterior)
    for j in range(D):
        one = NormalWishartPosterior(
            mean[:, j : j + 1], kappa[:, j], nu[:, j], factor[:, j, None, None]
        )
        alone, _ = conjugate("full").match(one, row[j : j + 1], 1.7, c)
        np.testing.assert_allclose(found.mean[:, j], alone.mean[:, 0], rtol=1e-12)
        np.testing.assert_allclose(found.kappa[:, j], alone.kappa, rtol=1e-12)
        np.testing.assert_allclose(found.nu[:, j], alone.nu, rtol=1e-12)
        np.testing.assert_allclose(found.scale[:, j], alone.scale[:, 0, 0], rtol=1e-12)


@pytest.mark.parametrize("covariance", STRUCTURES)
def test_a_row_reaches_components_it_may_belong_to(covariance: str) -> None:
    posterior = random_posterior(covariance, np.random.default_rng(6))
    # so far away that even a fraction of 1e-20 of its square is much
    row, c = np.full(D, 1e15), np.array([REACH, 0.99 * REACH, 1.0 - 2.0 * REACH])
    found, _ = conjugate(covariance).match(posterior, row, 1.0, c)
    for name in ("mean", "kappa", "nu", "scale"):
        before, after = getattr(posterior, name), getattr(found, name)
        np.testing.assert_array_equal(after[1], before[1])
        assert (after[2] != before[2]).any()
    assert (found.kappa[0] < posterior.kappa[0]).all()


@pytest.mark.parametrize("covariance", STRUCTURES)
def test_components_whose_degrees_of_freedom_would_fall_too_low_are_counted(
    covariance: str,
) -> None:
    d = 1
    least = d + 1.5
    posterior = random_posterior(covariance, np.random.default_rng(7), 4, d)
    nu = np.array([least, least + 0.1, 30.0, least]).reshape(posterior.nu.shape)
    posterior = replace(posterior, nu=nu, mean=np.zeros((4, d)))
    # a row far away that may be of the first two; the last is not changed, so it stays at the least
    c = np.array([0.5, 0.5, 1e-3, REACH])
    found, n_degenerate = conjugate(covariance).match(posterior, np.array([50.0]), 1.0, c)
    assert n_degenerate == 2
    np.testing.assert_allclose(found.nu.ravel()[[0, 1, 3]], least, rtol=1e-12)
    assert found.nu.ravel()[2] > least
