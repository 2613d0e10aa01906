"""Covariance structures against matrices that are built by hand."""

from __future__ import annotations

import numpy as np
import pytest

from mixfold.core.errors import InvalidInputError
from mixfold.core.statistics import pack
from mixfold.families._covariance import (
    STRUCTURES,
    check_lower,
    check_positive_definite,
    cholesky_floored,
    widened,
)

K, D = 3, 3
NAMES = ["full", "tied", "diag", "spherical"]


def scatters() -> np.ndarray:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(K, D, 5))
    return np.asarray(root @ root.swapaxes(1, 2) / 5.0)


def dense(name: str, factor: np.ndarray) -> np.ndarray:
    """Covariances (K, d, d), whatever the structure."""
    if name in ("full", "tied"):
        return np.broadcast_to(factor @ factor.swapaxes(1, 2), (K, D, D))
    return np.array([np.diag(np.broadcast_to(row**2, D)) for row in factor])


def expected(name: str, weight: np.ndarray, s: np.ndarray, reg: float) -> np.ndarray:
    """Maximum likelihood of each structure, with `reg` on the diagonal."""
    if name == "tied":
        s = np.broadcast_to(np.average(s, axis=0, weights=weight), s.shape)
    elif name == "diag":
        s = np.array([np.diag(np.diagonal(one)) for one in s])
    elif name == "spherical":
        s = np.array([np.eye(D) * np.trace(one) / D for one in s])
    return s + reg * np.eye(D)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reg", [0.0, 0.4])
def test_factor_of_scatter(name: str, reg: float) -> None:
    structure, s, weight = STRUCTURES[name], scatters(), np.array([0.2, 0.5, 0.3])
    packed = pack(s) if structure.scatter == "full" else np.diagonal(s, axis1=1, axis2=2)
    factor, n_degenerate = structure.factorize(weight, packed, reg, 0.0, np.full(D, 1e-9))
    assert n_degenerate == 0
    wanted = expected(name, weight, s, reg)
    np.testing.assert_allclose(dense(name, factor), wanted, rtol=1e-12, atol=1e-14)
    structure.check(factor, K, D)
    shape = structure.scale_shape(K, D)
    assert factor.shape == shape
    given = structure.covariances(factor)
    assert given.shape == structure.covariance_shape(K, D)
    np.testing.assert_allclose(structure.from_covariances(given), factor, rtol=1e-12)
    numbers = {"full": K * 6, "tied": 6, "diag": K * 3, "spherical": K}
    assert structure.n_parameters(K, D) == numbers[name]


@pytest.mark.parametrize("name", NAMES)
def test_factor_from_precisions(name: str) -> None:
    """As scikit-learn computes `precisions_cholesky_` from covariances."""
    from sklearn.mixture._gaussian_mixture import _compute_precision_cholesky

    structure, s = STRUCTURES[name], scatters()
    packed = pack(s) if structure.scatter == "full" else np.diagonal(s, axis1=1, axis2=2)
    factor, _ = structure.factorize(np.ones(K), packed, 0.0, 0.0, np.zeros(D))
    given = structure.covariances(factor)
    roots = _compute_precision_cholesky(given, name)
    np.testing.assert_allclose(structure.from_precision_roots(roots), factor, rtol=1e-9, atol=1e-12)
    full = name in ("full", "tied")
    precisions: np.ndarray = np.linalg.inv(given) if full else 1.0 / given
    np.testing.assert_allclose(structure.from_precisions(precisions), factor, rtol=1e-9, atol=1e-12)
    for wrong in (-precisions, 0.0 * precisions):
        with pytest.raises(ValueError, match="precisions"):
            structure.from_precisions(wrong)


@pytest.mark.parametrize("name", NAMES)
def test_no_direction_is_narrower_than_the_least(name: str) -> None:
    structure, s, least = STRUCTURES[name], scatters(), 0.5
    packed = pack(s) if structure.scatter == "full" else np.diagonal(s, axis1=1, axis2=2)
    factor, n_degenerate = structure.factorize(np.ones(K), packed, 0.0, least, np.full(D, 1e-9))
    assert n_degenerate == 0
    values, vectors = np.linalg.eigh(expected(name, np.ones(K), s, 0.0))
    assert (values < least).any()
    wide = (vectors * np.maximum(values, least)[:, None]) @ vectors.swapaxes(1, 2)
    np.testing.assert_allclose(dense(name, factor), wide, rtol=1e-9, atol=1e-12)
    narrow, _ = structure.factorize(np.ones(K), packed, 0.0, 0.0, np.full(D, 1e-9))
    np.testing.assert_allclose(
        dense(name, structure.widened(narrow, least)), wide, rtol=1e-9, atol=1e-12
    )
    np.testing.assert_array_equal(structure.widened(narrow, 0.0), narrow)


def test_matrices_that_are_wide_enough_are_kept() -> None:
    s = np.array([np.diag([0.5, 1.0, 2.0]), np.diag([0.1, 1.0, 2.0])])
    found = widened(s, 0.5)
    np.testing.assert_array_equal(found[0], s[0])
    np.testing.assert_allclose(found[1], np.diag([0.5, 1.0, 2.0]), atol=1e-15)
    assert widened(s, 0.0) is s
    np.testing.assert_array_equal(found, found.swapaxes(1, 2))


def test_pivots_on_their_floor() -> None:
    """A column that depends on those before it gets the floor, and leaves later ones alone."""
    s = np.array([np.eye(3), np.diag([4.0, 9.0, 16.0]), np.eye(3)])
    s[0, 1, 0] = s[0, 0, 1] = 1.0  # the second column is the first
    s[0, 2, 1] = s[0, 1, 2] = 0.3
    s[0, 2, 0] = s[0, 0, 2] = 0.3
    floor = np.array([0.01, 0.04, 0.09])
    factor, n_degenerate = cholesky_floored(s, floor)
    assert n_degenerate == 1
    np.testing.assert_allclose(
        factor[0], [[1.0, 0.0, 0.0], [1.0, 0.2, 0.0], [0.3, 0.0, np.sqrt(0.91)]], atol=1e-15
    )
    np.testing.assert_allclose(factor[1], np.diag([2.0, 3.0, 4.0]))
    # a pivot that equals the floor is on it, one above is not
    assert cholesky_floored(s[1:2], np.array([4.0, 1.0, 1.0]))[1] == 1
    assert cholesky_floored(s[1:2], np.array([3.999, 1.0, 1.0]))[1] == 0
    both = np.array([-np.eye(3), -np.eye(3), np.eye(3)])
    factor, n_degenerate = cholesky_floored(both, floor)
    assert n_degenerate == 2
    np.testing.assert_allclose(factor[0], np.diag([0.1, 0.2, 0.3]))


@pytest.mark.parametrize("name", ["diag", "spherical"])
def test_variances_on_their_floor(name: str) -> None:
    structure = STRUCTURES[name]
    scatter = np.array([[0.0, 0.0, 0.0], [1.0, 4.0, 4.0], [0.25, 0.25, 0.25]])
    floor = np.array([0.25, 0.25, 0.25])
    factor, n_degenerate = structure.factorize(np.ones(3), scatter, 0.0, 0.0, floor)
    assert n_degenerate == 2
    row = [1.0, 2.0, 2.0] if name == "diag" else [np.sqrt(3.0)]
    np.testing.assert_allclose(factor, [[0.5] * len(row), row, [0.5] * len(row)])
    if name == "spherical":  # its floor is the mean of those of the columns
        uneven = np.array([0.0, 1.0, 2.0])
        factor, n_degenerate = structure.factorize(np.ones(1), np.full((1, 3), 0.99), 0, 0, uneven)
        assert (factor[0, 0], n_degenerate) == (1.0, 1)


def test_factors_that_are_none() -> None:
    good = np.array([[[1.0, 0.0], [2.0, 1.0]]])
    check_lower("f", good, (1, 2, 2))
    for wrong in (good.swapaxes(1, 2), -good, 0.0 * good, np.full_like(good, np.nan)):
        with pytest.raises(InvalidInputError, match="f"):
            check_lower("f", wrong, (1, 2, 2))
    with pytest.raises(InvalidInputError, match="f"):
        check_lower("f", good, (2, 2, 2))
    with pytest.raises(InvalidInputError, match="f"):
        check_lower("f", 3.0 * good, (1, 2, 2), 5.0)
    for name in ("diag", "spherical"):
        shape = STRUCTURES[name].scale_shape(2, 3)
        with pytest.raises(InvalidInputError, match="scale"):
            STRUCTURES[name].check(np.zeros(shape), 2, 3)


def test_positive_definite_matrices() -> None:
    check_positive_definite(np.array([[2.0, 1.0], [1.0, 2.0]]))
    for wrong in ([[2.0, 1.0], [0.0, 2.0]], [[1.0, 2.0], [2.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]):
        with pytest.raises(ValueError, match="symmetric, positive-definite"):
            check_positive_definite(np.array(wrong))


def test_components_share_what_is_theirs() -> None:
    several = np.arange(12.0).reshape(3, 4)
    assert STRUCTURES["full"].shared(several) is several
    assert STRUCTURES["tied"].shared(several).tolist() == [[0.0, 1.0, 2.0, 3.0]]
    assert STRUCTURES["spherical"].shared(several).tolist() == [[0.0], [4.0], [8.0]]
