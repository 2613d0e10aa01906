"""The laws of kernels, on every family the registry finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mixfold.core.capabilities import IdentityKernel, WhitenedKernel
from mixfold.core.family import Family
from mixfold.core.rows import Rows
from mixfold.kernels.choice import kernel_for
from mixfold.kernels.native import NativeKernel
from mixfold.testing import families, kernels

SIZES = [(1, 1, 1), (2, 1, 60), (3, 2, 257), (2, 3, 50), (3, 4, 40), (2, 7, 60), (4, 17, 90)]
CASES = [(family, *size) for size in SIZES for family in families.all_variants(size[1])]


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.mark.parametrize("law", kernels.LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("family", "k", "d", "n"), CASES, ids=repr)
def test_kernel(
    law: Callable[..., None], family: Family, dtype: Any, k: int, d: int, n: int
) -> None:
    model, params, x = families.example_mixture(family, k, d, n, rng())
    kernel = kernel_for(model)
    compiled = isinstance(family, WhitenedKernel | IdentityKernel)
    assert isinstance(kernel, NativeKernel) == compiled, "the compiled kernels are missing"
    weight = rng().integers(0, 3, size=n).astype(np.float64)
    rtol = 1e-9 if dtype is np.float64 else 2e-4
    for x_like in kernels.layouts(x.astype(dtype)).values():
        law(model, params, kernel, Rows(x_like), rtol)
        law(model, params, kernel, Rows(x_like, weight), rtol)


def test_kernel_without_rows() -> None:
    for family in families.all_variants(2):
        model, params, x = families.example_mixture(family, 3, 2, 5, rng())
        kernel = kernel_for(model)
        assert not kernel.expect(kernel.prepare(params), Rows(x[:0])).any()
