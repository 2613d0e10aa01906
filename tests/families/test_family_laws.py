"""The laws of families, over everything the registry finds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mixfold.core.family import Family
from mixfold.core.registry import find_all
from mixfold.testing import families

FAMILIES: list[Family] = [v for f in find_all("families").values() for v in f.variants()]


@pytest.mark.parametrize("law", families.LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("family", FAMILIES, ids=repr)
@pytest.mark.parametrize(("k", "d"), [(1, 1), (3, 2), (2, 5)])
def test_family(law: Callable[..., None], family: Family, k: int, d: int) -> None:
    law(family, k, families.columns_for(family, d), np.random.default_rng(7))
