"""Blocks of components joined to that of all rows."""

from __future__ import annotations

import numpy as np
import pytest

from mixfold.core.family import Family
from mixfold.families.categorical import Categorical
from mixfold.families.gaussian import Gaussian
from mixfold.families.poisson import Poisson
from mixfold.families.product import Product

FAMILIES = [
    Gaussian(),
    Gaussian("diag"),
    Poisson(),
    Product({0: Gaussian(), 1: Poisson(), 2: Categorical(4)}),
]


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_the_rows_of_all_components_have_the_statistics_of_one(family: Family) -> None:
    rng = np.random.default_rng(0)
    x = np.floor(4.0 * rng.random((50, 3)))
    responsibilities = rng.dirichlet(np.ones(4), 50)
    responsibilities[:, 2] = 0.0  # a component without rows
    parts = family.blocks_of(x, responsibilities)
    whole = family.blocks_of(x, responsibilities.sum(axis=1, keepdims=True))
    for part, expected in zip(parts, whole, strict=True):
        found = part.together()
        for name in ("weight", "mean", "scatter"):
            one, other = getattr(found, name), getattr(expected, name)
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12, strict=True)
