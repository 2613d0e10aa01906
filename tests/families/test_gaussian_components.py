"""Degenerate components are counted; parameters outside their limits; other units of columns."""

from __future__ import annotations

import numpy as np
import pytest

from mixfold import GaussianMixture
from mixfold.core.errors import InvalidInputError
from mixfold.core.limits import LEAST_VARIANCE
from mixfold.families.gaussian import Gaussian


@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
@pytest.mark.parametrize("constant", [0, 1, 2])
def test_components_of_equal_rows_are_counted(covariance: str, constant: int) -> None:
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(60, 2)), np.arange(60) % 3
    for k in range(constant):
        x[labels == k] = k
    family = Gaussian(covariance)
    params, count_degenerate = family.maximize(family.blocks_of(x, np.eye(3)[labels]))
    assert count_degenerate == constant
    assert np.isfinite(family.log_density(params, x)).all()


def test_a_tied_covariance_is_degenerate_once_or_not_at_all() -> None:
    labels = np.arange(60) % 3
    family, x = Gaussian("tied"), np.repeat(labels[:, None], 2, axis=1).astype(float)
    assert family.maximize(family.blocks_of(x, np.eye(3)[labels]))[1] == 1
    x[::7] += 0.5
    x[::5, 1] -= 0.3
    assert family.maximize(family.blocks_of(x, np.eye(3)[labels]))[1] == 0


@pytest.mark.parametrize("cap", [0.0, -1.0, LEAST_VARIANCE, 1.2 / LEAST_VARIANCE])
def test_caps_have_limits(cap: float) -> None:
    with pytest.raises(InvalidInputError, match=r"^cap "):
        Gaussian(cap=cap)
    Gaussian(cap=1.0 / LEAST_VARIANCE)


@pytest.mark.parametrize("family", [Gaussian("full"), Gaussian("diag"), Gaussian("factor", rank=2)])
def test_parameters_of_columns_in_other_units(family: Gaussian) -> None:
    """p(offset + scale x) differs from p(x) by the product of the scales alone."""
    rng = np.random.default_rng(0)
    params = family.example(2, 3, rng)
    x = family.sample(params, np.zeros(20, dtype=int), rng)
    offset, scale = np.array([1.0, -20.0, 300.0]), np.array([0.5, 2.0, 7.0])
    moved = family.log_density(params.rescaled(offset, scale), offset + scale * x)
    np.testing.assert_allclose(
        moved, family.log_density(params, x) - np.log(scale).sum(), rtol=1e-9
    )


@pytest.mark.parametrize("covariance", ["diag", "spherical"])
def test_one_precision_that_is_not_positive_is_refused(covariance: str) -> None:
    precisions = np.array([[1.0, 2.0], [3.0, -1.0]])
    given = precisions if covariance == "diag" else precisions[1]
    model = GaussianMixture(2, covariance_type=covariance, precisions_init=given)
    with pytest.raises(ValueError, match="positive"):
        model.fit(np.random.default_rng(0).normal(size=(30, 2)))
