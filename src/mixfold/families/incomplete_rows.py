"""Families of rows with missing cells."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.independent_columns import separable
from mixfold.core.statistics import Block, Blocks
from mixfold.core.value import replace
from mixfold.families.gaussian import FactorGaussian, Gaussian
from mixfold.families.observed_columns import ObservedColumns
from mixfold.families.observed_factors import ObservedFactors
from mixfold.families.observed_gaussian import ObservedGaussian
from mixfold.families.observed_student_t import ObservedStudentT
from mixfold.families.product import Product
from mixfold.families.student_t import StudentT
from mixfold.families.transformed_gaussian import TransformedGaussian

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
    if possible or isinstance(family, Gaussian | FactorGaussian | StudentT | TransformedGaussian):
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
    if isinstance(family, TransformedGaussian):
        return family.with_missing()
    if isinstance(family, Gaussian) and not family.columns_are_independent:
        return ObservedGaussian(family)
    return family if family.accepts_missing else ObservedColumns(family)


class ForMissingCells:
    """The change to the family of rows whose cells may be missing.

    Parameters are the same. Complete rows have every column, so that the weights of the components
    are those of each of their columns too.
    """

    def family(self, family: Family) -> Family:
        return with_missing(family)

    def components(self, family: Family, params: Any) -> Any:
        return params

    def blocks(self, family: Family, blocks: Blocks, d: int) -> Blocks:
        if family.accepts_missing:
            return blocks
        if isinstance(family, Product):
            parts = (
                self.blocks(group.family, blocks[group.blocks], len(group.places))
                for group in family.groups
            )
            return tuple(block for own in parts for block in own)
        return blocks if separable(family) is None else tuple(map(_with_weight_of_means, blocks))


def _with_weight_of_means(block: Block) -> Block:
    """The block in which every mean has the weight of its component."""
    weight = np.repeat(block.weight[:, None], block.mean.shape[1], axis=1)
    return replace(block, weight=weight)
