"""Factors of a product that are of one family, against the same families column by column."""

from __future__ import annotations

import pickle
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.independent_columns import separable
from mixfold.core.statistics import Block
from mixfold.core.value import equal, flatten, replace, unflatten
from mixfold.families.bernoulli import Bernoulli
from mixfold.families.categorical import Categorical
from mixfold.families.gaussian import Gaussian, GaussianParams
from mixfold.families.incomplete_rows import with_missing
from mixfold.families.poisson import Poisson
from mixfold.families.product import Product, ProductParams
from mixfold.testing import families

K, N = 3, 80
COLUMNS: list[Family] = [one for one in families.all_variants(1) if separable(one) is not None]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def product_of(family: Family, d: int) -> Product:
    factors: Any = dict.fromkeys(range(d), family)
    return Product(factors)


def incomplete(family: Product) -> Product:
    found = with_missing(family)
    assert isinstance(found, Product)
    return found


def drawn(family: Product) -> tuple[ProductParams, np.ndarray, np.ndarray]:
    """Parameters, rows and responsibilities."""
    params = family.example(K, family.n_columns, rng())
    x = family.sample(params, rng(1).integers(K, size=N), rng(2))
    return params, x, rng(3).dirichlet(np.ones(K), size=N)


def test_factors_of_one_family_are_a_group_wherever_they_are() -> None:
    given: Any = {
        0: Poisson(),
        1: Gaussian(),
        2: Categorical(3),
        3: Poisson(),
        4: Categorical(4),
        (5, 7): Gaussian(),
        6: Gaussian("diag"),
        8: Poisson(floor=0.1),
        9: Categorical(3),
    }
    found = [(type(g.family), g.places) for g in Product(given).groups]
    assert found == [
        (Poisson, [0, 3]),
        (Gaussian, [1, 6]),
        (Categorical, [2, 9]),
        (Categorical, [4]),
        (Gaussian, [5, 7]),
        (Poisson, [8]),
    ]


def test_limits_of_columns_are_joined() -> None:
    given: Any = {0: Gaussian(), 1: Poisson(), 2: Gaussian()}
    x = np.column_stack([rng().normal(size=50), np.ones(50), 100.0 * rng(1).normal(size=50)])
    family = Product(given).with_limits(x)
    joined: Any = family.groups[0].family
    own: list[Any] = [factor.family for factor in family.factors]
    expected = [own[0].column_floors[0], own[2].column_floors[0]]
    assert joined.column_floors.tolist() == expected
    assert expected[1] > 100.0 * expected[0]


def test_gaussians_with_and_without_limits_are_not_joined() -> None:
    limited = Gaussian("diag").with_limits(rng().normal(size=(50, 1)))
    assert limited.join_families([Gaussian("diag")]) is None
    assert Gaussian("diag").join_families([Poisson()]) is None
    assert Gaussian("diag").join_families([Gaussian("diag", reg_covar=1.0)]) is None


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("family", COLUMNS, ids=repr)
def test_every_column_has_the_estimate_that_it_has_alone(family: Family, missing: bool) -> None:
    whole, one = product_of(family, 3), product_of(family, 1)
    params, x, r = drawn(whole)
    if missing:
        whole, one = incomplete(whole), incomplete(one)
        x = np.where(rng(4).random(x.shape) < 0.3, np.nan, x)
    assert len(whole.groups) == 1
    blocks = whole.to_blocks(params, whole.sums(params, x, r))
    found, n_degenerate = whole.maximize(blocks)
    several = []
    for j in range(3):
        own, column = ProductParams((params.parts[j],)), x[:, [j]]
        alone, some = one.maximize(one.to_blocks(own, one.sums(own, column, r)))
        several.append(some)
        for name, value in vars(alone.parts[0]).items():
            np.testing.assert_allclose(getattr(found.parts[j], name), value, rtol=1e-12)
    assert max(several) <= n_degenerate <= sum(several)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("family", COLUMNS, ids=repr)
def test_sums_and_blocks_of_groups_are_inverse(family: Family, missing: bool) -> None:
    whole = product_of(family, 3)
    params, x, r = drawn(whole)
    if missing:
        whole, x = incomplete(whole), np.where(rng(4).random(x.shape) < 0.3, np.nan, x)
    table = whole.sums(params, x, r)
    again = whole.to_sums(params, whole.to_blocks(params, table))
    first = 2 if missing else 1  # blocks do not have the weight of rows without any cell
    np.testing.assert_allclose(again[:, first:], table[:, first:], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("family", COLUMNS, ids=repr)
def test_statistics_are_of_the_columns_that_they_are_said_to_be_of(family: Family) -> None:
    params, x, r = drawn(product_of(family, 3))
    apart = separable(family)
    assert apart is not None
    table = family.sums(apart.join_columns(params.parts), x, r)[:, 1:]
    columns = apart.columns_of_statistics(3)
    for j, part in enumerate(params.parts):
        alone = family.sums(part, x[:, [j]], r)[:, 1:]
        np.testing.assert_allclose(table[:, columns == j], alone, rtol=1e-12)


def test_a_column_without_any_cell_pools_components_equally() -> None:
    weight = np.array([[1.0, 0.0], [3.0, 0.0]])
    block = Block(weight, np.array([[1.0, 2.0], [5.0, 4.0]]), np.empty((2, 0)))
    assert block.pooled(block.mean).tolist() == [4.0, 3.0]


def test_parameters_of_groups_are_those_of_their_factors() -> None:
    given: Any = {0: Poisson(), 1: Bernoulli(), 2: Poisson(), 3: Bernoulli()}
    family = Product(given)
    params, x, r = drawn(family)
    found, _ = family.maximize(family.to_blocks(params, family.sums(params, x, r)))
    plain = ProductParams(found.parts)
    assert found.is_joined(family.groups)
    assert not plain.is_joined(family.groups)
    assert equal(found.joined(family.groups), plain.joined(family.groups))
    coordinates = family.unconstrained(plain)
    assert coordinates[:, 2].tolist() == np.log(found.parts[2].means[:, 0]).tolist()
    back = family.constrained(coordinates, found)
    np.testing.assert_allclose(family.unconstrained(back), coordinates, rtol=1e-12)


def test_invalid_parameters_are_refused_in_groups_too() -> None:
    family = product_of(Gaussian("diag"), 2)
    params = family.example(K, 2, rng())
    first = params.parts[0]
    bad = ProductParams((replace(first, scale=-first.scale), params.parts[1]))
    for _ in range(2):
        with pytest.raises(InvalidInputError, match="scale"):
            family.check_params(bad, K, 2)
        bad.joined(family.groups)
    narrow = ProductParams((first, GaussianParams(first.means[:2], first.scale[:2])))
    with pytest.raises(InvalidInputError, match="means"):
        family.check_params(narrow, K, 2)


def test_parameters_of_groups_can_be_copied_and_saved() -> None:
    given: Any = {0: Poisson(), 1: Bernoulli(), 2: Poisson()}
    family = Product(given)
    params, x, r = drawn(family)
    blocks = family.to_blocks(params, family.sums(params, x, r))
    expected = ProductParams(family.maximize(blocks)[0].parts)
    arrays: dict[str, np.ndarray] = {}
    tree = flatten(family.maximize(blocks)[0], "params", arrays)
    assert equal(unflatten(tree, arrays), expected)
    for copied in (pickle.loads(pickle.dumps(family.maximize(blocks)[0])), deepcopy(expected)):
        assert equal(copied, expected)
    with pytest.raises(AttributeError, match="no shapes"):
        _ = expected.shapes
