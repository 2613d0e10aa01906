"""The laws of kernels, on every family the registry finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mixfold.backends.threads import Threads
from mixfold.core.capabilities import IdentityKernel, WhitenedKernel
from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.family import Family
from mixfold.core.independent_columns import separable
from mixfold.core.rows import Rows
from mixfold.core.value import replace
from mixfold.families.bernoulli import Bernoulli
from mixfold.families.categorical import Categorical
from mixfold.families.gamma import Gamma
from mixfold.families.gaussian import Gaussian
from mixfold.families.incomplete_rows import with_missing
from mixfold.families.log_normal import LogNormal
from mixfold.families.multinomial import Multinomial
from mixfold.families.poisson import Poisson
from mixfold.families.product import Product
from mixfold.families.student_t import StudentT
from mixfold.kernels.choice import kernel_for
from mixfold.kernels.native import NativeKernel, warn_once
from mixfold.kernels.patterned_rows import PatternedRowsKernel
from mixfold.kernels.product import ProductKernel
from mixfold.kernels.reference import ReferenceKernel
from mixfold.testing import families, kernels

SIZES = [(1, 1, 1), (2, 1, 60), (3, 2, 257), (2, 3, 50), (3, 4, 40), (2, 7, 60), (4, 17, 90)]
CASES = [(family, *size) for size in SIZES for family in families.all_variants(size[1])]
CASES += [(family, 3, 5, 300) for family in families.all_variants(5) if family.n_columns == 5]

# one factor of every family, and factors that the kernel must reorder, transform or leave out
COLUMNS: list[Family] = [one for one in families.all_variants(1) if separable(one) is not None]
PRODUCTS: list[Family] = [
    Product(factors)
    for factors in (
        dict(enumerate(COLUMNS)),
        {1: Poisson(), 0: Gaussian()},
        {2: Gamma(), 0: Categorical(40), 1: LogNormal()},
        {(0, 3): Gaussian(), 1: Gamma(), 2: Bernoulli()},
        {(0, 1): Gaussian(), (3, 2): Gaussian("tied")},
        {(2, 0): Multinomial(), 1: Poisson()},
    )
]
WITH_HOLES = [with_missing(family) for family in COLUMNS]
WITH_HOLES += [with_missing(family) for family in PRODUCTS[:-1]]
GROUPS: Any = {(0, 3): StudentT(), 1: Gamma(), (2, 4): Gaussian("factor", rank=1)}
WITH_HOLES.append(with_missing(Product(GROUPS)))
COVARIANCES = [with_missing(Gaussian(name)) for name in ("full", "tied", "spherical")]
COVARIANCES += [with_missing(StudentT()), with_missing(Gaussian("factor", rank=2))]


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
    linear = isinstance(family, ExponentialFamily) and family.has_linear_form
    divided = linear or isinstance(family, Product | Categorical)
    assert isinstance(kernel, ProductKernel) == (divided and not compiled)
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


def with_holes(x: np.ndarray, share: float) -> np.ndarray:
    """Rows some of whose cells are missing; the last has none."""
    x = np.where(rng().random(x.shape) < share, np.nan, x)
    x[-1:] = np.nan
    return x


@pytest.mark.parametrize("law", kernels.LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("family", PRODUCTS, ids=repr)
def test_kernel_of_products(law: Callable[..., None], family: Family, k: int) -> None:
    model, params, x = families.example_mixture(family, k, family.n_columns or 0, 270, rng())
    assert isinstance(kernel_for(model), ProductKernel)
    weight = rng().integers(0, 3, size=len(x)).astype(np.float64)
    for x_like in kernels.layouts(x).values():
        law(model, params, kernel_for(model), Rows(x_like), 1e-9)
        law(model, params, kernel_for(model), Rows(x_like, weight), 1e-9)


@pytest.mark.parametrize("law", kernels.LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("share", [0.002, 0.3, 1.0])
@pytest.mark.parametrize("family", WITH_HOLES + COVARIANCES, ids=repr)
def test_kernel_of_rows_with_holes(law: Callable[..., None], family: Family, share: float) -> None:
    d = family.n_columns or 3
    model, params, x = families.example_mixture(family, 3, d, 600, rng())
    assert isinstance(kernel_for(model), ProductKernel | PatternedRowsKernel)
    weight = rng().integers(0, 3, size=len(x)).astype(np.float64)
    for x_like in kernels.layouts(with_holes(x, share)).values():
        law(model, params, kernel_for(model), Rows(x_like), 1e-9)
        law(model, params, kernel_for(model), Rows(x_like, weight), 1e-9)


@pytest.mark.parametrize("family", [PRODUCTS[0], PRODUCTS[3], WITH_HOLES[0], WITH_HOLES[-2]])
def test_products_do_not_depend_on_threads(family: Family) -> None:
    d = family.n_columns or 3
    model, params, x = families.example_mixture(family, 4, d, 100_000, rng())
    rows = Rows(with_holes(x, 0.2) if family.accepts_missing else x)
    one, three = (
        Threads(model, threads).fold(params, rows, np.zeros(model.n_sums)) for threads in (1, 3)
    )
    assert one.tobytes() == three.tobytes()


def test_products_of_far_rows_and_tiny_components() -> None:
    family = with_missing(Product({0: Gaussian(), 1: Poisson(), 2: Gamma()}))
    model, params, x = families.example_mixture(family, 3, 3, 40, rng())
    x[0, 0], x[1, 0], x[2, 1], x[3, 2] = 1e12, -1e60, 1e9, 1e30
    x[4] = 1e30, np.nan, 1e-30
    kernel, reference = kernel_for(model), ReferenceKernel(model)
    rows = Rows(x)
    expected, found = reference.expect(params, rows), kernel.expect(kernel.prepare(params), rows)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    log_density = kernel.posterior(kernel.prepare(params), x)[0]
    np.testing.assert_allclose(log_density, reference.posterior(params, x)[0], rtol=1e-10)


@pytest.mark.parametrize("levels", [3, 40])
def test_numbers_that_are_no_levels_have_no_density_but_weight(levels: int) -> None:
    family = Product({0: Gaussian(), 1: Categorical(levels)})
    model, params, x = families.example_mixture(family, 3, 2, 50, rng())
    x[:4, 1] = -1.0, levels, 1e300, 7e9
    for one, rows in ((family, x), (with_missing(family), with_holes(x, 0.1))):
        for law in (kernels.expectations_agree, kernels.posteriors_agree):
            own = replace(model, family=one)
            law(own, params, kernel_for(own), Rows(rows), 1e-9)


def test_without_a_compiler_products_fall_back_to_the_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mixfold.kernels.native._native", None)
    warn_once.cache_clear()
    with pytest.warns(RuntimeWarning, match="built without a compiler"):
        found = kernel_for(families.example_mixture(PRODUCTS[1], 2, 2, 5, rng())[0])
    assert type(found) is ReferenceKernel
