"""The laws of families, over everything the registry finds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mixfold.core.family import Family
from mixfold.testing import families

SHAPES = [(1, 1), (3, 2), (2, 5)]
CASES = [(family, k, d) for k, d in SHAPES for family in families.all_variants(d)]


@pytest.mark.parametrize("law", families.LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize(("family", "k", "d"), CASES, ids=repr)
def test_family(law: Callable[..., None], family: Family, k: int, d: int) -> None:
    law(family, k, families.columns_for(family, d), np.random.default_rng(7))
