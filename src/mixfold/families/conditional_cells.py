"""Marginal and conditional distributions of the columns of a family.

Families are those of rows with missing cells, from `with_missing`. In a product every factor is
treated by itself, since factors are independent given the component.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from mixfold.core.capabilities import ConditionalCells
from mixfold.core.checks import check_kind
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.params import Params
from mixfold.core.rows import Array
from mixfold.core.value import replace
from mixfold.families.factor import Placed
from mixfold.families.product import Product, ProductParams


def marginal(family: Family, params: Params, columns: Sequence[int]) -> tuple[Family, Params]:
    """The distributions of some of the columns, in this order."""
    if not isinstance(family, Product):
        known = _known(family)
        return known.of_columns(columns), known.take_columns(params, columns)
    return _narrowed(
        family, params, columns, lambda part, kept: marginal(part.family, part.params, kept)
    )


def conditional(family: Family, params: Params, row: Array) -> tuple[Family, Params]:
    """The distributions of the missing columns of a row (d,) given its observed cells."""
    if not isinstance(family, Product):
        return _known(family).given_cells(params, row)
    missing = [int(j) for j in np.flatnonzero(np.isnan(row))]
    return _narrowed(
        family,
        params,
        missing,
        lambda part, kept: conditional(part.family, part.params, row[part.places]),
    )


def expected_cells(family: Family, params: Params, x: Array, responsibilities: Array) -> Array:
    """Rows whose missing cells hold means of mixtures with responsibilities (n, K).

    Means are given the observed cells. Categories get the most probable level, angles the mean
    direction.
    """
    return _filled(
        family,
        params,
        x,
        lambda known, own, z: known.expected_cells(own, z, responsibilities),
    )


def sample_cells(
    family: Family, params: Params, x: Array, labels: np.ndarray, rng: np.random.Generator
) -> Array:
    """Rows whose missing cells are drawn from component labels[i], given the observed cells."""
    return _filled(family, params, x, lambda known, own, z: known.sample_cells(own, z, labels, rng))


def family_of_column(family: Family, params: Params, column: int) -> tuple[Family, Params, int]:
    """The family that a column belongs to, its parameters, and the column's number there."""
    if isinstance(family, Product):
        for part in family.placed(_product(params)):
            if column in part.places:
                return family_of_column(part.family, part.params, part.places.index(column))
    return family, params, column


def _filled(
    family: Family,
    params: Params,
    x: Array,
    fill: Callable[[ConditionalCells, Params, Array], Array],
) -> Array:
    if not isinstance(family, Product):
        return fill(_known(family), params, x)
    found = np.array(x, dtype=np.float64)
    for part in family.placed(_product(params)):
        found[:, part.places] = _filled(part.family, part.params, x[:, part.places], fill)
    return found


def _known(family: Family) -> ConditionalCells:
    if isinstance(family, ConditionalCells):
        return family
    raise InvalidInputError(
        f"the conditional distributions of {family!r} are not known: use a family of independent "
        "columns, Gaussian() or StudentT()"
    )


def _narrowed(
    product: Product,
    params: Params,
    columns: Sequence[int],
    narrow: Callable[[Placed, list[int]], tuple[Family, Params]],
) -> tuple[Product, ProductParams]:
    """The product of some of the columns; `narrow` is for factors of which some are left out."""
    numbers = {int(column): i for i, column in enumerate(columns)}
    placed = list(product.placed(_product(params)))
    named = zip(product.factors, placed, strict=True)
    by_number = all(factor.columns == tuple(part.places) for factor, part in named)
    factors, parts = [], []
    for factor, part in zip(product.factors, placed, strict=True):
        kept = [i for i, place in enumerate(part.places) if place in numbers]
        if not kept:
            continue
        family, own = part.family, part.params
        if len(kept) < part.width:
            family, own = narrow(part, kept)
        positions = tuple(numbers[part.places[i]] for i in kept)
        names = positions if by_number else tuple(factor.columns[i] for i in kept)
        factors.append(replace(factor, columns=names, family=family, positions=positions))
        parts.append(own)
    return replace(product, factors=tuple(factors)), ProductParams(tuple(parts))


def _product(params: Params) -> ProductParams:
    check_kind("components", params, ProductParams)
    return cast(ProductParams, params)
