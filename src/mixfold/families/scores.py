"""Scores of families: derivatives of log p(x | k) in free coordinates, for standard errors.

Every component has q local coordinates. `LocalScores.index` says which free coordinate each of them
is, since components may share some, such as those of a tied covariance, and some are fixed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from mixfold.core.capabilities import UnconstrainedCoordinates, has_coordinates
from mixfold.core.data_limits import CanDegenerate
from mixfold.core.errors import InvalidInputError
from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.family import Family, n_components_of
from mixfold.core.independent_columns import separable
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.families._gaussian_scores import SERVED, GaussianScores
from mixfold.families._level_scores import LevelScores
from mixfold.families._natural_scores import NaturalScores
from mixfold.families._shown_parameters import (
    LocalScores,
    ShownParameter,
    StatisticScores,
    has_steps,
)
from mixfold.families.categorical import Categorical
from mixfold.families.column_groups import divided_blocks
from mixfold.families.gaussian import Gaussian
from mixfold.families.product import Product, ProductParams

__all__ = ["LocalScores", "ShownParameter", "StatisticScores", "has_steps", "local_scores"]


def local_scores(family: Family, params: object, weights: Array, d: int) -> LocalScores:
    """The scores of a family at these parameters, or an error if it is not served."""
    if isinstance(family, Product):
        return ProductScores(family, params, weights)  # type: ignore[arg-type]
    k = len(weights)
    if isinstance(family, Gaussian) and family.structure_name in SERVED:
        return GaussianScores(family, params, _limited(family, params, weights, d))  # type: ignore[arg-type]
    if isinstance(family, Categorical):
        return LevelScores(family, params)  # type: ignore[arg-type]
    if (
        isinstance(family, ExponentialFamily)
        and isinstance(family, UnconstrainedCoordinates)
        and has_coordinates(family)
        and separable(family) is not None
        and not isinstance(family, Gaussian)
        and family.unconstrained(params).size == family.n_parameters(k, d)
    ):
        return NaturalScores(family, params, _limited(family, params, weights, d))
    raise InvalidInputError(
        f"standard errors of {family!r} are not known: use exponential families such as "
        "Gaussian(), Poisson() and Gamma(), or products of them"
    )


def _limited(family: Family, params: object, weights: Array, d: int) -> NDArray[np.bool_]:
    """Which components are at a limit, by columns, (K, d)."""
    if isinstance(family, CanDegenerate):
        return family.degenerate(params, weights)
    return np.zeros((len(weights), d), dtype=bool)


class ProductScores(StatisticScores):
    """Those of all factors, one after the other."""

    def __init__(self, family: Product, params: ProductParams, weights: Array) -> None:
        self._family = family
        self._places = [part.places for part in family.placed(params)]
        self._parts = [
            local_scores(part.family, part.params, weights, part.width)
            for part in family.placed(params)
        ]
        self._ends = np.cumsum([part.index.shape[1] for part in self._parts])
        index, n_free = [], 0
        for part in self._parts:
            index.append(np.where(part.index < 0, -1, part.index + n_free))
            n_free += part.n_free
        super().__init__(np.hstack(index), n_free)
        assert n_components_of(params) == len(self.index)

    def scores(self, x: Array) -> Array:
        pairs = zip(self._parts, self._places, strict=True)
        return np.concatenate([part.scores(x[:, places]) for part, places in pairs], axis=2)

    def information(self) -> Array:
        parts = [part.information() for part in self._parts]
        return np.stack([block_diag(*blocks) for blocks in zip(*parts, strict=True)])

    @property
    def has_steps(self) -> bool:
        return len(self._movable()) == len(self._parts)

    def _movable(self) -> list[StatisticScores]:
        return [part for part in self._parts if has_steps(part)]

    def totals(self, params: ProductParams, blocks: Blocks) -> Array:
        each = zip(
            self._movable(), params.parts, divided_blocks(self._family.groups, blocks), strict=True
        )
        return np.hstack([part.totals(own, some) for part, own, some in each])

    def moved(self, params: ProductParams, change: Array) -> ProductParams:
        changes = np.split(change, self._ends[:-1], axis=1)
        each = zip(self._movable(), params.parts, changes, strict=True)
        return ProductParams(tuple(part.moved(own, some) for part, own, some in each))

    def shown(self) -> list[ShownParameter]:
        found, first = [], 0
        for part, places in zip(self._parts, self._places, strict=True):
            found += [one.moved(first, places) for one in part.shown()]
            first += part.index.shape[1]
        return found
