"""Families of rows with missing cells."""

from __future__ import annotations

from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.independent_columns import separable
from mixfold.core.value import replace
from mixfold.families.gaussian import Gaussian
from mixfold.families.observed_columns import ObservedColumns
from mixfold.families.observed_gaussian import ObservedGaussian
from mixfold.families.product import Product
from mixfold.families.transformed_gaussian import TransformedGaussian


def with_missing(family: Family) -> Family:
    """The family of rows whose cells may be missing; it has the same parameters."""
    if family.accepts_missing:
        return family
    if isinstance(family, Product):
        found = [replace(f, family=with_missing(f.family)) for f in family.factors]
        return replace(family, factors=tuple(found))
    if separable(family) is not None:
        return ObservedColumns(family)
    if isinstance(family, Gaussian):
        return ObservedGaussian(family)
    if isinstance(family, TransformedGaussian):
        return family.with_missing()
    raise InvalidInputError(
        f"rows of {family!r} cannot have missing values: drop or fill such rows, or use a family "
        "of independent columns"
    )
