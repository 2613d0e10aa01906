"""Factor analysers against dense matrices: moments, M-step, starts, domains and bounds."""

from __future__ import annotations

import numpy as np
import pytest

from mixfold import Gaussian
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.core.statistics import Block
from mixfold.families.gaussian import FactorGaussian, FactorParams

LEAST_SHARE = 0.01  # of a column's variance, for the noise and for factors at the start


def family(rank: int, **settings: float) -> FactorGaussian:
    found = Gaussian("factor", rank=rank, **settings)
    assert isinstance(found, FactorGaussian)
    return found


def packed(variance: Array, cross: Array, factors: Array) -> Array:
    """Second moments in the order of blocks: variances, then a row of products for each factor."""
    parts = [variance]
    for h in range(cross.shape[1]):
        parts += [cross[:, h], factors[:, h, : h + 1]]
    return np.hstack(parts)


def block(variance: Array, cross: Array, factors: Array) -> Block:
    """Components of equal weight about zero."""
    k, q, d = cross.shape
    return Block(np.ones(k), np.zeros((k, d + q)), packed(variance, cross, factors))


# the M-step


@pytest.mark.parametrize(("d", "q"), [(3, 1), (5, 2), (6, 4)])
def test_columns_are_regressed_on_factors(d: int, q: int) -> None:
    root = np.random.default_rng(d).normal(size=(3, d + q, d + q + 3))
    whole = root @ root.swapaxes(1, 2) / (d + q)
    variance = np.diagonal(whole[:, :d, :d], axis1=1, axis2=2)
    moments = block(variance, whole[:, d:, :d], whole[:, d:, d:])
    params, n_degenerate = family(q, floor=0.0).maximize((moments,))
    assert n_degenerate == 0
    for k, joined in enumerate(whole):
        cross = joined[d:, :d]
        explained = cross.T @ np.linalg.solve(joined[d:, d:], cross)
        loadings = params.loadings[k]
        np.testing.assert_allclose(loadings.T @ loadings, explained, rtol=1e-9, atol=1e-12)
        rest = np.diag(joined[:d, :d] - explained)
        np.testing.assert_allclose(params.noise_variance[k], rest, rtol=1e-9)


def test_factors_explain_no_more_than_there_is() -> None:
    variance, cross = np.array([[0.2, 3.0, -1e-18]]), np.array([[[0.6, 0.3, 0.0]]])
    moments = block(variance, cross, np.ones((1, 1, 1)))
    params, n_degenerate = family(1, floor=1e-3).maximize((moments,))
    # 0.6^2 is more than 0.2; a variance that rounding has made negative is explained by no factor
    np.testing.assert_allclose(np.square(params.loadings[0, 0]), [0.2, 0.09, 0.0], rtol=1e-12)
    np.testing.assert_allclose(params.noise_variance[0], [2e-4, 2.91, 1e-120], rtol=1e-12)
    assert n_degenerate == 1


def test_an_m_step_is_that_of_dense_factor_analysis() -> None:
    rng = np.random.default_rng(2)
    k, d, q = 2, 5, 2
    model = family(q, floor=0.0)
    params = model.example(k, d, rng)
    x, responsibilities = rng.normal(size=(60, d)), rng.uniform(0.1, 1.0, size=(60, k))
    table = model.sums(params, x, responsibilities)
    found, n_degenerate = model.maximize(model.to_blocks(params, table))
    assert n_degenerate == 0
    for j in range(k):
        share = responsibilities[:, j] / responsibilities[:, j].sum()
        part, noise = params.loadings[j], np.diag(params.noise_variance[j])
        beta = part @ np.linalg.inv(part.T @ part + noise)
        z = (x - params.means[j]) @ beta.T
        mean, z = share @ x, z - share @ z
        away = x - mean
        cross = (share[:, None] * z).T @ away
        factors = (share[:, None] * z).T @ z + np.eye(q) - beta @ part.T
        explained = cross.T @ np.linalg.solve(factors, cross)
        np.testing.assert_allclose(found.means[j], mean, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(
            found.loadings[j].T @ found.loadings[j], explained, rtol=1e-8, atol=1e-10
        )
        variance = share @ np.square(away)
        np.testing.assert_allclose(found.noise_variance[j], variance - np.diag(explained))


def test_noise_gets_what_is_added_and_counts_components_on_floors() -> None:
    d = 2
    variance = np.array([[4.0, 9.0], [0.01, 9.0], [4.0, 0.01], [0.01, 0.01]])
    blocks = (block(variance, np.zeros((4, 1, d)), np.ones((4, 1, 1))),)
    added, n_degenerate = family(1, floor=0.0, reg_covar=0.5).maximize(blocks)
    np.testing.assert_allclose(added.noise_variance, variance + 0.5)
    assert n_degenerate == 0
    floored, n_degenerate = family(1, floor=0.1).maximize(blocks)
    floors = 0.1 * variance.mean(axis=0)
    np.testing.assert_allclose(floored.noise_variance, np.maximum(variance, floors))
    assert n_degenerate == 3
    # a variance that is the floor itself is on it, as in the other structures
    alone = (block(variance[:1], np.zeros((1, 1, d)), np.ones((1, 1, 1))),)
    assert family(1, floor=1.0).maximize(alone)[1] == 1


# starts


def principal(x: Array, share: Array, q: int) -> Array:
    """Loadings by probabilistic PCA of the correlations, as a product L'L."""
    variance = share @ np.square(x)
    scale = np.where(variance > 0.0, np.sqrt(variance), 1.0)
    rows = x / scale
    values, vectors = np.linalg.eigh((share[:, None] * rows).T @ rows)
    values, vectors = values[::-1][:q], vectors[:, ::-1][:, :q]
    d = x.shape[1]
    rest = max(0.0, d - values.sum()) / max(1, d - q)
    loadings = vectors * np.sqrt(np.maximum(values - rest, LEAST_SHARE))
    explained = np.square(loadings).sum(axis=1)
    most = 1.0 - LEAST_SHARE
    loadings *= np.sqrt(most / np.where(explained > most, explained, most))[:, None]
    return np.asarray(loadings @ loadings.T)


@pytest.mark.parametrize(
    ("d", "q", "second", "noise"),
    [
        (6, 1, 0.0, 0.2),
        (6, 1, 0.0, 0.01),  # almost nothing is left to the noise
        (6, 2, 0.2, 0.03),
        (3, 2, 0.2, 0.03),  # as many factors as there can be
        (3, 2, 0.02, 1e-3),  # the second explains nearly nothing
        (5, 1, 0.0, 0.2),  # the last column is constant
    ],
)
def test_factors_begin_as_principal_components(d: int, q: int, second: float, noise: float) -> None:
    rng = np.random.default_rng(d)
    z = rng.normal(size=(200, 2))
    signs = np.where(np.arange(d) % 2, -1.0, 1.0)
    x = z[:, :1] + second * z[:, 1:] * signs + noise * rng.normal(size=(200, d))
    x *= rng.uniform(0.2, 5.0, size=d)
    weight = rng.uniform(0.1, 3.0, size=200)
    share = weight / weight.sum()
    x -= share @ x
    if d == 5:
        x[:, -1] = 0.0
    (found,) = family(q).blocks_of(x, weight[:, None])
    variance = share @ np.square(x)
    starts = [d + h * d + h * (h + 1) // 2 for h in range(q)]
    cross = np.stack([found.scatter[0, a : a + d] for a in starts])
    whole = packed(variance[None], cross[None], np.eye(q)[None])
    np.testing.assert_allclose(found.scatter, whole, rtol=1e-12)
    loadings = cross / np.where(variance > 0.0, np.sqrt(variance), 1.0)
    expected = principal(x, share, q)
    np.testing.assert_allclose(loadings.T @ loadings, expected, atol=1e-6)


# other values


def test_floors_of_components_are_those_of_their_rows() -> None:
    rng = np.random.default_rng(3)
    model, weights = family(2, floor=0.02), np.array([0.2, 0.5, 0.3])
    params = model.example(3, 4, rng)
    centre = weights @ params.means
    matrices = [part.T @ part for part in params.loadings]
    variances = np.stack([np.diag(m) for m in matrices]) + params.noise_variance
    total = weights @ (variances + np.square(params.means - centre))
    found = model.with_limits_of(params, weights).column_floors
    assert found is not None
    np.testing.assert_allclose(found, 0.02 * total, rtol=1e-12)
    np.testing.assert_allclose(model.standard_deviations(params), np.sqrt(variances), rtol=1e-12)


def test_bounds_of_parameters_are_eigenvalues() -> None:
    means = np.array([[1.0, -7.0, 0.5, 2.0], [0.1, 3.0, -2.0, 1.0]])
    # factors along single columns, the longest along the one with most noise
    loadings = np.zeros((2, 2, 4))
    loadings[0, 0, 0], loadings[0, 1, 1] = 3.0, 1.0
    loadings[1, 0, 2], loadings[1, 1, 3] = 2.0, 0.5
    noise = np.array([[2.0, 0.7, 0.9, 0.8], [0.6, 0.5, 1.5, 0.4]])
    values = [
        np.linalg.eigvalsh(m.T @ m + np.diag(n)) for m, n in zip(loadings, noise, strict=True)
    ]
    noise[0, 3], noise[1, 0] = 0.3, 0.2
    found = family(2).parameter_bounds(FactorParams(means, loadings, noise))
    np.testing.assert_allclose(found, (7.0, 0.2, np.max(values)), rtol=1e-12)


def test_noise_may_be_as_small_as_the_least_variance() -> None:
    model = family(1)

    def check(noise: float) -> None:
        params = FactorParams(np.zeros((1, 2)), np.ones((1, 1, 2)), np.array([[1.0, noise]]))
        model.check_params(params, 1, 2)

    for noise in (1e-120, 1.0, 1e120):
        check(noise)
    for noise in (1e-122, 0.0, -1.0, 1e126, np.nan):
        with pytest.raises(InvalidInputError, match="noise_variance"):
            check(noise)


def test_expected_moments_give_the_parameters_back() -> None:
    rng = np.random.default_rng(5)
    model = family(2, floor=0.0)
    params = model.example(3, 5, rng)
    found, _ = model.maximize(model.expected(params, np.array([0.2, 0.3, 0.5])))
    np.testing.assert_allclose(found.means, params.means)
    np.testing.assert_allclose(found.noise_variance, params.noise_variance, rtol=1e-10)
    np.testing.assert_allclose(found.loadings, params.loadings, rtol=1e-10)


def test_unconstrained_coordinates_are_means_loadings_and_logarithms_of_noise() -> None:
    model = family(2)
    params = model.example(3, 4, np.random.default_rng(6))
    found = model.unconstrained(params)
    assert found.shape == (3, 4 + 2 * 4 + 4)
    np.testing.assert_array_equal(found[:, :4], params.means)
    np.testing.assert_array_equal(found[1, 8:12], params.loadings[1, 1])
    np.testing.assert_allclose(found[:, -4:], np.log(params.noise_variance))
    back = model.constrained(found, params)
    np.testing.assert_array_equal(back.loadings, params.loadings)
    np.testing.assert_allclose(back.noise_variance, params.noise_variance, rtol=1e-14)
