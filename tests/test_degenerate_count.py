"""Components without variance are counted, one by one; limits of what a family can be told."""

from __future__ import annotations

import numpy as np
import pytest

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
    params, n_degenerate = family.maximize(family.blocks_of(x, np.eye(3)[labels]))
    assert n_degenerate == constant
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
