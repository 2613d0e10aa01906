"""Families of rows with missing cells."""

from __future__ import annotations

from typing import Any

from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.independent_columns import separable
from mixfold.core.statistics import Blocks
from mixfold.core.value import replace
from mixfold.families.gaussian import Gaussian
from mixfold.families.observed_columns import ObservedColumns
from mixfold.families.observed_gaussian import ObservedGaussian
from mixfold.families.product import Product


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
    raise InvalidInputError(
        f"rows of {family!r} cannot have missing values: drop or fill such rows, or use a family "
        "of independent columns"
    )


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
            widths = [len(factor.columns) for factor in family.factors]
            parts = zip(family.cut(blocks), widths, strict=True)
            return tuple(b for (own, some), n in parts for b in self.blocks(own, some, n))
        apart = separable(family)
        if apart is None:
            return blocks
        return tuple(block for own in apart.blocks_by_column(blocks, d) for block in own)
