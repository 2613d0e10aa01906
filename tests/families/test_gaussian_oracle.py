"""Gaussian components against dense matrices: floors, caps, precisions and bounds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal, ortho_group

from mixfold import Gaussian
from mixfold.core.capabilities import RowUpdates
from mixfold.core.errors import InvalidInputError
from mixfold.core.limits import LEAST_VARIANCE
from mixfold.core.rows import Array
from mixfold.core.statistics import Block, pack
from mixfold.families.gaussian import GaussianParams

STRUCTURES = ["full", "tied", "diag", "spherical"]
MATRICES = ["full", "tied"]


def covariances(params: GaussianParams) -> Array:
    """One dense matrix for each component."""
    k, d = params.means.shape
    factor = params.scale
    if factor.ndim == 2:
        factor = np.broadcast_to(factor, (k, d))[:, :, None] * np.eye(d)
    return np.array(np.broadcast_to(factor @ factor.swapaxes(1, 2), (k, d, d)))


def spread_matrices(eigenvalues: list[list[float]], seed: int = 0) -> Array:
    """Symmetric matrices with these eigenvalues and random directions."""
    matrices = []
    for i, values in enumerate(eigenvalues):
        turn = ortho_group.rvs(len(values), random_state=seed + i)
        square = (turn * values) @ turn.T
        matrices.append(0.5 * (square + square.T))
    return np.stack(matrices)


def block(scatter: Array, covariance: str, means: Array | None = None) -> Block:
    """K components of equal weight with these matrices of scatter."""
    k, d = scatter.shape[:2]
    diagonal = np.diagonal(scatter, axis1=1, axis2=2)
    packed = pack(scatter) if covariance in MATRICES else diagonal.copy()
    return Block(np.ones(k), np.zeros((k, d)) if means is None else means, packed)


# floors


@pytest.mark.parametrize("covariance", STRUCTURES)
def test_a_variance_at_its_floor_is_degenerate(covariance: str) -> None:
    scatter = np.diag([4.0, 16.0, 4.0])[None]
    if covariance == "spherical":
        scatter = 4.0 * np.eye(3)[None]
    # with one component the variance of all rows is its own
    params, n_degenerate = Gaussian(covariance, floor=1.0).maximize((block(scatter, covariance),))
    assert n_degenerate == 1
    np.testing.assert_array_equal(covariances(params)[0], scatter[0])


def test_a_column_at_its_floor_is_independent_of_later_ones() -> None:
    scatter = np.array([[[4.0, 2.0, 1.0], [2.0, 9.0, 3.0], [1.0, 3.0, 16.0]]])
    means = np.array([[0.0, 0.0, 0.0]])
    params, n_degenerate = Gaussian(floor=0.9).maximize((block(scatter, "full", means),))
    # the first keeps its variance; the second has 9 - 2^2 / 4 = 8 given the first, below 8.1
    expected = np.array([[2.0, 0.0, 0.0], [1.0, np.sqrt(8.1), 0.0], [0.5, 0.0, np.sqrt(15.75)]])
    np.testing.assert_allclose(params.scale[0], expected, rtol=1e-14)
    assert n_degenerate == 1


@pytest.mark.parametrize("covariance", MATRICES)
def test_an_indefinite_scatter_keeps_the_columns_that_are_sound(covariance: str) -> None:
    scatter = np.array([[[1.0, 2.0], [2.0, 1.0]]])
    params, n_degenerate = Gaussian(covariance, floor=0.01).maximize((block(scatter, covariance),))
    np.testing.assert_allclose(params.scale[0], [[1.0, 0.0], [2.0, 0.1]], rtol=1e-14)
    assert n_degenerate == 1


@pytest.mark.parametrize("covariance", STRUCTURES)
def test_floors_of_components_are_those_of_their_rows(covariance: str) -> None:
    rng = np.random.default_rng(3)
    k, d = 3, 4
    family = Gaussian(covariance, floor=0.02)
    params = family.example(k, d, rng)
    weights = np.array([0.2, 0.5, 0.3])
    dense = covariances(params)
    centre = weights @ params.means
    between = weights @ np.square(params.means - centre)
    within = weights @ np.diagonal(dense, axis1=1, axis2=2)
    found = family.with_limits_of(params, weights).column_floors
    np.testing.assert_allclose(found, 0.02 * (within + between), rtol=1e-12)


@pytest.mark.parametrize("covariance", STRUCTURES)
def test_standard_deviations_are_roots_of_the_diagonal(covariance: str) -> None:
    family = Gaussian(covariance)
    params = family.example(3, 5, np.random.default_rng(1))
    roots = np.sqrt(np.diagonal(covariances(params), axis1=1, axis2=2))
    np.testing.assert_allclose(family.standard_deviations(params), roots, rtol=1e-12)


def test_common_limits_are_the_smallest_of_those_known() -> None:
    none = Gaussian()
    low = Gaussian(column_floors=np.array([1.0, 5.0]))
    high = Gaussian(column_floors=np.array([2.0, 3.0]))
    for first, others in ((none, [low, high]), (low, [none, high]), (high, [low])):
        np.testing.assert_array_equal(first.common_limits(others).column_floors, [1.0, 3.0])
    assert none.common_limits([Gaussian()]).column_floors is None
    for chosen in (Gaussian(floor=0.1), Gaussian(reg_covar=0.1), Gaussian(cap=3.0)):
        assert chosen.common_limits([low]).column_floors is None


# caps


@pytest.mark.parametrize("covariance", MATRICES)
def test_a_cap_raises_small_eigenvalues_alone(covariance: str) -> None:
    scatter = spread_matrices([[0.1, 0.3, 2.0, 5.0]])
    values, vectors = np.linalg.eigh(scatter[0])
    expected = (vectors * np.maximum(values, 0.5)) @ vectors.T
    family = Gaussian(covariance, cap=2.0)
    params, n_degenerate = family.maximize((block(scatter, covariance),))
    np.testing.assert_allclose(covariances(params)[0], expected, rtol=1e-12, atol=1e-12)
    assert n_degenerate == 0
    free = GaussianParams(params.means, np.asarray(np.linalg.cholesky(scatter)))
    moved = family.constrained(family.unconstrained(free), free)
    np.testing.assert_allclose(covariances(moved)[0], expected, rtol=1e-12, atol=1e-12)


def test_a_cap_leaves_matrices_that_it_does_not_bind_as_they_are() -> None:
    family = Gaussian(cap=2.0)
    factor = np.stack([np.diag([0.5, 2.0]), [[1.0, 0.0], [0.4, 1.2]]])
    free = GaussianParams(np.zeros((2, 2)), factor)
    found = family.constrained(family.unconstrained(free), free).scale
    np.testing.assert_allclose(found[0], np.diag([np.sqrt(0.5), 2.0]), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(found[1], factor[1], rtol=1e-15)


@pytest.mark.parametrize("covariance", MATRICES)
def test_a_cap_that_binds_nothing_changes_no_bit(covariance: str) -> None:
    scatter = spread_matrices([[0.55, 0.7, 2.0, 5.0]])
    params, _ = Gaussian(covariance, cap=2.0).maximize((block(scatter, covariance),))
    np.testing.assert_array_equal(params.scale, np.linalg.cholesky(scatter))


def test_raised_matrices_are_symmetric_to_the_last_bit() -> None:
    from mixfold.families._covariance import widened

    raised = widened(spread_matrices([[0.01, 0.1, 0.3, 2.0, 5.0, 7.0]] * 4), 1.0)
    np.testing.assert_array_equal(raised, raised.swapaxes(1, 2))
    assert np.linalg.eigvalsh(raised).min() > 1.0 - 1e-12


@pytest.mark.parametrize("covariance", STRUCTURES)
def test_components_at_their_cap_have_its_precision_in_every_direction(covariance: str) -> None:
    family = Gaussian(covariance, cap=4.0)
    params = family.example(3, 3, np.random.default_rng(2))
    found = family.at_cap(params)
    np.testing.assert_allclose(covariances(found), np.broadcast_to(0.25 * np.eye(3), (3, 3, 3)))
    np.testing.assert_array_equal(found.means, params.means)
    free = Gaussian(covariance)
    assert free.at_cap(params) is params


@pytest.mark.parametrize("structure", [{}, {"covariance": "factor", "rank": 1}])
def test_of_two_caps_the_lower_one_counts(structure: dict[str, object]) -> None:
    assert Gaussian(**structure).capped(2.0).cap == 2.0
    assert Gaussian(**structure, cap=5.0).capped(2.0).cap == 2.0
    assert Gaussian(**structure, cap=1.0).capped(2.0).cap == 1.0


# what kernels can do


@pytest.mark.parametrize("covariance", STRUCTURES)
def test_compiled_updates_know_no_capped_matrices(covariance: str) -> None:
    assert isinstance(Gaussian(covariance).row_updates, RowUpdates)
    updates = Gaussian(covariance, cap=4.0).row_updates
    if covariance in MATRICES:
        assert updates is None
    else:
        assert updates is not None
        assert updates.least_variance == 0.25


def test_devices_maximize_covariances_of_their_own_without_caps() -> None:
    found = {c for c in STRUCTURES if Gaussian(c).device_passes is not None}
    assert found == {"full", "diag", "spherical"}
    assert not any(Gaussian(c, cap=4.0).device_passes for c in STRUCTURES)
    passes = Gaussian("diag", floor=0.03, reg_covar=0.2).device_passes
    assert passes is not None
    assert (passes.floor, passes.reg_covar) == (0.03, 0.2)
    np.testing.assert_array_equal(passes.lowest_variances(2), np.full(2, LEAST_VARIANCE))


# domains


@pytest.mark.parametrize("covariance", MATRICES)
@pytest.mark.parametrize("place", [(0, 1), (1, 2), (0, 2)])
def test_factors_must_be_lower_triangular(covariance: str, place: tuple[int, int]) -> None:
    factor = np.eye(3)[None].repeat(2 if covariance == "full" else 1, axis=0)
    family, means = Gaussian(covariance), np.zeros((2, 3))
    family.check_params(GaussianParams(means, factor), 2, 3)
    factor[-1][place] = 0.5
    with pytest.raises(InvalidInputError, match="not lower triangular"):
        family.check_params(GaussianParams(means, factor), 2, 3)


@pytest.mark.parametrize(
    "matrix",
    [
        [[1.0, 0.5], [0.0, 1.0]],  # not symmetric
        [[1.0, 2.0], [2.0, 1.0]],  # eigenvalues 3 and -1
        [[1.0, 0.0], [0.0, 0.0]],  # singular
    ],
)
@pytest.mark.parametrize("covariance", MATRICES)
def test_precisions_must_be_positive_definite(covariance: str, matrix: list[list[float]]) -> None:
    means, bad = np.zeros((2, 2)), np.array(matrix)
    precisions = np.stack([np.eye(2), bad]) if covariance == "full" else bad
    with pytest.raises(ValueError, match="symmetric, positive-definite"):
        Gaussian(covariance).from_precisions(means, precisions)


@pytest.mark.parametrize("covariance", ["diag", "spherical"])
@pytest.mark.parametrize("bad", [0.0, -1.0])
def test_precisions_of_columns_must_be_positive(covariance: str, bad: float) -> None:
    precisions = np.array([[1.0, 2.0], [3.0, bad]]) if covariance == "diag" else np.array([1, bad])
    with pytest.raises(ValueError, match="should be positive"):
        Gaussian(covariance).from_precisions(np.zeros((2, 2)), precisions)


@pytest.mark.parametrize("covariance", STRUCTURES)
def test_parameters_from_precisions_have_their_inverses(covariance: str) -> None:
    family = Gaussian(covariance)
    params = family.example(3, 4, np.random.default_rng(5))
    inverses = np.linalg.inv(covariances(params))
    precisions = {
        "full": inverses,
        "tied": inverses[0],
        "diag": np.diagonal(inverses, axis1=1, axis2=2),
        "spherical": inverses[:, 0, 0],
    }[covariance]
    found = family.from_precisions(params.means, precisions)
    np.testing.assert_allclose(covariances(found), covariances(params), rtol=1e-9, atol=1e-9)
    roots = family.from_precision_roots(params.means, family.precision_roots(params))
    np.testing.assert_allclose(roots.scale, params.scale, rtol=1e-9, atol=1e-9)


def test_settings_end_where_they_say() -> None:
    for floor in (0.0, 1.0):
        assert Gaussian(floor=floor).floor == floor
    for reg_covar in (0.0, 1e100, 9e119):
        assert Gaussian(reg_covar=reg_covar).reg_covar == reg_covar
    for wrong in ({"floor": 1.2}, {"floor": -0.1}, {"reg_covar": 1e130}, {"reg_covar": -1.0}):
        with pytest.raises(InvalidInputError):
            Gaussian(**wrong)


# mathematics


@pytest.mark.parametrize("covariance", STRUCTURES)
@pytest.mark.parametrize("d", [1, 3, 20])
def test_natural_form_is_the_density_of_scipy(covariance: str, d: int) -> None:
    rng = np.random.default_rng(d)
    family = Gaussian(covariance)
    params, x = family.example(2, d, rng), rng.normal(size=(6, d))
    t, eta = family.sufficient_statistics(x), family.to_natural(params)
    assert t.shape == (6, family.n_statistics(d))
    found = t @ eta.T - family.log_normalizer(eta) + family.log_base_measure(x)[:, None]
    pairs = zip(params.means, covariances(params), strict=True)
    expected = np.stack([multivariate_normal.logpdf(x, m, c) for m, c in pairs], axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.parametrize("covariance", STRUCTURES)
def test_free_parameters_are_means_and_distinct_entries_of_covariances(covariance: str) -> None:
    for k, d in ((1, 1), (2, 3), (4, 5)):
        entries = {
            "full": k * len(np.tril_indices(d)[0]),
            "tied": len(np.tril_indices(d)[0]),
            "diag": k * d,
            "spherical": k,
        }[covariance]
        assert Gaussian(covariance).n_parameters(k, d) == k * d + entries


@pytest.mark.parametrize("covariance", STRUCTURES)
def test_reg_covar_is_added_to_every_variance(covariance: str) -> None:
    matrices = spread_matrices([[1.0, 2.0, 5.0], [0.5, 3.0, 4.0]])
    params, _ = Gaussian(covariance, reg_covar=0.3).maximize((block(matrices, covariance),))
    dense = {
        "full": matrices,
        "tied": matrices.mean(axis=0),
        "diag": matrices * np.eye(3),
        "spherical": np.trace(matrices, axis1=1, axis2=2)[:, None, None] / 3.0 * np.eye(3),
    }[covariance]
    expected = np.broadcast_to(dense, (2, 3, 3)) + 0.3 * np.eye(3)
    np.testing.assert_allclose(covariances(params), expected, rtol=1e-12, atol=1e-14)


def test_bounds_of_parameters_are_eigenvalues() -> None:
    rng = np.random.default_rng(4)
    for covariance in STRUCTURES:
        family = Gaussian(covariance)
        params = family.example(3, 4, rng)
        params = GaussianParams(params.means, 0.3 * params.scale)
        values = np.linalg.eigvalsh(covariances(params))
        expected = np.abs(params.means).max(), values.min(), values.max()
        np.testing.assert_allclose(family.parameter_bounds(params), expected, rtol=1e-9)


@pytest.mark.parametrize("structure", [{}, {"covariance": "diag"}, {"covariance": "factor"}])
def test_components_without_rows_are_at_the_mean_of_all(structure: dict[str, str]) -> None:
    rng = np.random.default_rng(6)
    family = Gaussian(**structure, rank=1 if "factor" in structure.values() else None)
    x, responsibilities = 3.0 + rng.normal(size=(9, 3)), rng.uniform(0.1, 2.0, size=(9, 3))
    responsibilities[:, 1] = 0.0
    (found,) = family.blocks_of(x, responsibilities)
    np.testing.assert_allclose(found.weight, responsibilities.sum(axis=0))
    means = np.stack([np.average(x, axis=0, weights=responsibilities[:, k]) for k in (0, 2)])
    np.testing.assert_allclose(found.mean[[0, 2], :3], means)
    everything = np.average(x, axis=0, weights=responsibilities.sum(axis=1))
    np.testing.assert_allclose(found.mean[1, :3], everything)
    assert not found.scatter[1].any()


@pytest.mark.parametrize("covariance", STRUCTURES)
def test_draws_have_the_means_and_covariances_of_their_components(covariance: str) -> None:
    family = Gaussian(covariance)
    params = family.example(2, 3, np.random.default_rng(11))
    labels = np.repeat([0, 1], 20_000)
    x = family.sample(params, labels, np.random.default_rng(12))
    for k, dense in enumerate(covariances(params)):
        rows = np.linalg.solve(np.linalg.cholesky(dense), (x[labels == k] - params.means[k]).T)
        np.testing.assert_allclose(rows.mean(axis=1), np.zeros(3), atol=0.04)
        np.testing.assert_allclose(np.cov(rows), np.eye(3), atol=0.06)


@pytest.mark.parametrize("covariance", STRUCTURES)
def test_sums_of_rows_are_weighted_moments(covariance: str) -> None:
    rng = np.random.default_rng(13)
    family = Gaussian(covariance)
    params, x = family.example(2, 3, rng), rng.normal(size=(12, 3))
    weight = rng.uniform(0.0, 1.0, size=(12, 2))
    (found,) = family.to_blocks(params, family.sums(params, x, weight))
    matrices = np.stack([np.cov(x.T, aweights=weight[:, k], ddof=0) for k in range(2)])
    means = np.stack([np.average(x, axis=0, weights=weight[:, k]) for k in range(2)])
    exact = block(matrices, covariance, means)
    np.testing.assert_allclose(found.weight, weight.sum(axis=0))
    np.testing.assert_allclose(found.mean, exact.mean, atol=1e-12)
    np.testing.assert_allclose(found.scatter, exact.scatter, atol=1e-12)


@pytest.mark.parametrize("covariance", STRUCTURES)
def test_covariances_have_the_shapes_of_scikit_learn(covariance: str) -> None:
    family = Gaussian(covariance)
    params = family.example(2, 3, np.random.default_rng(14))
    dense = covariances(params)
    exact = {
        "full": dense,
        "tied": dense[0],
        "diag": np.diagonal(dense, axis1=1, axis2=2),
        "spherical": dense[:, 0, 0],
    }[covariance]
    assert family.covariance_shape(2, 3) == exact.shape
    np.testing.assert_allclose(family.covariances(params), exact, rtol=1e-14)
