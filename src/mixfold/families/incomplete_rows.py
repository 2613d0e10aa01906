"""Families of rows with missing cells."""

from __future__ import annotations

from typing import NamedTuple

from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.independent_columns import separable
from mixfold.core.value import replace
from mixfold.families.gaussian import FactorGaussian, Gaussian
from mixfold.families.observed_columns import ObservedColumns
from mixfold.families.observed_factors import ObservedFactors
from mixfold.families.observed_gaussian import ObservedGaussian
from mixfold.families.observed_student_t import ObservedStudentT
from mixfold.families.product import Product
from mixfold.families.student_t import StudentT

REMEDY = "a family of independent columns, Gaussian() or StudentT()"


class Dependent(NamedTuple):
    """Rows that cannot have missing cells, and how their values depend on one another."""

    rows: str
    why: str


def find_dependent(family: Family, rows: str = "rows") -> Dependent | None:
    """The rows of a family, or columns of a product, that cannot have missing cells, if any."""
    if isinstance(family, Product):
        found = (find_dependent(one.family, f"columns {one.label!r}") for one in family.factors)
        return next((one for one in found if one is not None), None)
    possible = family.accepts_missing or separable(family) is not None
    if possible or isinstance(family, Gaussian | FactorGaussian | StudentT):
        return None
    return Dependent(f"{rows} of {family!r}", family.dependence)


def with_missing(family: Family) -> Family:
    """The family of rows whose cells may be missing; it has the same parameters."""
    refused = find_dependent(family)
    if refused is not None:
        raise InvalidInputError(
            f"{refused.rows} cannot have missing values, since {refused.why}: drop or fill such "
            f"rows, or use {REMEDY}"
        )
    if isinstance(family, Product):
        found = [replace(f, family=with_missing(f.family)) for f in family.factors]
        return replace(family, factors=tuple(found))
    return _observed(family)


def _observed(family: Family) -> Family:
    if isinstance(family, FactorGaussian):
        return ObservedFactors(family)
    if isinstance(family, StudentT):
        return ObservedStudentT(family)
    if isinstance(family, Gaussian) and not family.columns_are_independent:
        return ObservedGaussian(family)
    return family if family.accepts_missing else ObservedColumns(family)
