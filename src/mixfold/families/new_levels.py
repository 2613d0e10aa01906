"""Levels that are added to the columns of a product while it is learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mixfold.core.family import Family
from mixfold.core.statistics import Block, Blocks
from mixfold.core.value import replace
from mixfold.families._probabilities import ProbabilityParams, normalized
from mixfold.families.bernoulli import Bernoulli
from mixfold.families.categorical import Categorical
from mixfold.families.column_groups import divided_blocks, joined_blocks
from mixfold.families.factor import Factor, Level
from mixfold.families.incomplete_rows import with_missing
from mixfold.families.product import Product, ProductParams


class NewLevels:
    """The change to the product whose columns have more levels, which follow those before.

    No row has had the new levels: their counts are zero, and their probabilities the smallest. Two
    levels are Bernoulli's or those of a categorical distribution, more are categorical.
    """

    def __init__(self, levels: Mapping[Any, tuple[Level, ...]]) -> None:
        self.levels = levels

    def _added(self, factor: Factor) -> tuple[Level, ...]:
        return self.levels.get(factor.label, ()) if factor.levels is not None else ()

    def _factor(self, factor: Factor) -> Factor:
        more = self._added(factor)
        if not more:
            return factor
        levels = (*(factor.levels or ()), *more)
        return replace(factor, levels=levels, family=_with_levels(factor.family, len(levels)))

    def family(self, family: Family) -> Family:
        assert isinstance(family, Product)
        return replace(family, factors=tuple(map(self._factor, family.factors)))

    def components(self, family: Family, params: ProductParams) -> ProductParams:
        assert isinstance(family, Product)
        pairs = zip(family.factors, params.parts, strict=True)
        return ProductParams(tuple(self._params(factor, part) for factor, part in pairs))

    def _params(self, factor: Factor, params: Any) -> Any:
        family = self._factor(factor).family.for_complete_rows()
        if not self._added(factor) or not isinstance(family, Categorical):
            return params
        p = params.probabilities
        p = np.stack([1.0 - p, p], axis=2) if p.ndim == 2 else p
        return ProbabilityParams(normalized(_padded(p, family.levels))[0])

    def blocks(self, family: Family, blocks: Blocks, d: int) -> Blocks:
        after = self.family(family)
        assert isinstance(family, Product)
        assert isinstance(after, Product)
        pairs = zip(family.factors, divided_blocks(family.groups, blocks), strict=True)
        return joined_blocks(after.groups, [self._blocks(factor, own) for factor, own in pairs])

    def _blocks(self, factor: Factor, blocks: Blocks) -> Blocks:
        family = self._factor(factor).family.for_complete_rows()
        if not self._added(factor) or not isinstance(family, Categorical):
            return blocks
        (block,) = blocks
        mean = block.mean
        if isinstance(factor.family.for_complete_rows(), Bernoulli):
            mean = np.hstack([1.0 - mean, mean])
        weight = block.weight
        if weight.ndim == 2:  # of every mean
            weight = np.repeat(weight[:, :1], family.levels, axis=1)
        return (Block.of_means(weight, _padded(mean, family.levels)),)


def _with_levels(family: Family, number: int) -> Family:
    """The family of a column of so many levels, which is the same if it has them already."""
    complete = family.for_complete_rows()
    if number <= (complete.levels if isinstance(complete, Categorical) else 2):
        return family
    more = Categorical(number)
    return with_missing(more) if family.accepts_missing else more


def _padded(shares: np.ndarray, number: int) -> np.ndarray:
    """With zeros for levels that are new, up to so many."""
    more = [(0, 0)] * (shares.ndim - 1) + [(0, number - shares.shape[-1])]
    return np.pad(shares, more)
