"""Eigenvalues are raised to a floor, and matrices that need nothing are kept."""

from __future__ import annotations

import numpy as np
import pytest

from mixfold.core.eigenvalue_floors import raise_eigenvalues
from mixfold.models.gaussian_effects import Structure, raise_to_floor


def of_eigenvalues(*values: float) -> np.ndarray:
    """A symmetric matrix with these eigenvalues and with directions that are no axes."""
    d = len(values)
    directions = np.eye(d) - 2.0 * np.full((d, d), 1.0 / d)  # a reflection
    matrix = (directions * np.array(values)) @ directions.T
    return np.asarray(0.5 * (matrix + matrix.T))


def test_only_eigenvalues_below_the_floor_change() -> None:
    raised, low = raise_eigenvalues(of_eigenvalues(-1.0, 0.3, 2.0), 0.5)
    np.testing.assert_allclose(raised, of_eigenvalues(0.5, 0.5, 2.0), rtol=0.0, atol=1e-15)
    assert int(low) == 2
    assert (raised == raised.T).all()


def test_each_matrix_of_several_is_judged_by_itself() -> None:
    given = np.stack([of_eigenvalues(1.0, 2.0), of_eigenvalues(1e-9, 2.0)])
    raised, low = raise_eigenvalues(given, 1e-3)
    assert low.tolist() == [0, 1]
    assert (raised[0] == given[0]).all()
    np.testing.assert_allclose(np.linalg.eigvalsh(raised[1]), [1e-3, 2.0], rtol=1e-12)


def test_the_floor_may_be_a_share_of_the_largest_eigenvalue() -> None:
    raised, low = raise_eigenvalues(of_eigenvalues(1.0, 1e6), 1e-3, share=0.01)
    np.testing.assert_allclose(np.linalg.eigvalsh(raised), [1e4, 1e6], rtol=1e-12)
    assert int(low) == 1


def test_what_is_below_the_floor_by_rounding_is_kept() -> None:
    given = of_eigenvalues(1.0 - 1e-14, 3.0)
    assert (raise_eigenvalues(given, 1.0, tolerance=1e-12)[0] == given).all()
    assert int(raise_eigenvalues(given, 1.0)[1]) == 1


@pytest.mark.parametrize(("structure", "low"), [("full", 1), ("diag", 0)])
def test_a_diagonal_covariance_needs_no_share_of_the_largest(
    structure: Structure, low: int
) -> None:
    given = np.diag([1e-9, 1e6])
    raised, found = raise_to_floor(given, structure, 1e-10, share=1e-12)
    assert found == low
    assert (raised == given).all() == (structure == "diag")


def test_entries_off_the_diagonal_of_a_diagonal_covariance_do_not_count() -> None:
    raised, found = raise_to_floor(np.array([[1.0, 5.0], [5.0, 0.0]]), "diag", 0.1)
    assert raised.tolist() == [[1.0, 0.0], [0.0, 0.1]]
    assert found == 1
