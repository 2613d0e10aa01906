"""Scores of families: derivatives of log p(x | k) in free coordinates, for standard errors.

Every component has q local coordinates. `LocalScores.index` says which free coordinate each of them
is, since components may share some, such as those of a tied covariance, and some are fixed.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from mixfold.core.capabilities import UnconstrainedCoordinates, has_coordinates
from mixfold.core.data_limits import CanDegenerate
from mixfold.core.errors import InvalidInputError
from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.family import Family, n_components_of
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.families._differentiated_scores import (
    Coordinates,
    DifferentiatedScores,
    unconstrained_coordinates,
)
from mixfold.families._factor_coordinates import factor_coordinates
from mixfold.families._gaussian_scores import SERVED, GaussianScores
from mixfold.families._level_scores import LevelScores
from mixfold.families._natural_scores import NaturalScores
from mixfold.families._outcome_scores import OutcomeScores
from mixfold.families._shape_coordinates import shape_coordinates
from mixfold.families._shown_attributes import At, attributes_of, shown_attributes
from mixfold.families._shown_parameters import (
    LocalScores,
    ShownParameter,
    StatisticScores,
    has_information,
    has_steps,
)
from mixfold.families.categorical import Categorical
from mixfold.families.column_groups import divided_blocks
from mixfold.families.gaussian import FactorGaussian, Gaussian, GaussianParams
from mixfold.families.multinomial import Multinomial
from mixfold.families.product import Product, ProductParams
from mixfold.families.transformed_gaussian import TransformedGaussian

__all__ = [
    "LocalScores",
    "ShownParameter",
    "StatisticScores",
    "has_information",
    "has_steps",
    "local_scores",
]


def local_scores(family: Family, params: Any, weights: Array, d: int) -> LocalScores:
    """The scores of a family at these parameters, or an error if it is not served."""
    if isinstance(family, Product):
        return ProductScores(family, params, weights)
    if isinstance(family, TransformedGaussian):
        return TransformedScores(family, params, local_scores(family.normal, params, weights, d))
    if isinstance(family, Categorical):
        return LevelScores(family, params)
    if isinstance(family, Multinomial):
        return OutcomeScores(params)
    return _limited_scores(family, params, _limited(family, params, weights, d))


def _limited_scores(family: Family, params: Any, limited: NDArray[np.bool_]) -> LocalScores:
    """Scores of a family some of whose components may be at a limit."""
    if isinstance(family, Gaussian) and family.structure_name in SERVED:
        return GaussianScores(family, params, limited)
    exponential = isinstance(family, ExponentialFamily) and not family.statistics_depend_on_params
    if exponential and _is_free(family, params, limited):
        return NaturalScores(family, params, limited)
    return DifferentiatedScores(family, _coordinates(family, params, limited))


def _is_free(family: Family, params: Any, limited: NDArray[np.bool_]) -> bool:
    """Whether there are unconstrained coordinates, as many as free parameters."""
    return (
        isinstance(family, UnconstrainedCoordinates)
        and has_coordinates(family)
        and family.unconstrained(params).size == family.n_parameters(*limited.shape)
    )


def _coordinates(family: Family, params: Any, limited: NDArray[np.bool_]) -> Coordinates:
    """The coordinates in which densities are differentiated."""
    if isinstance(family, Gaussian):
        return shape_coordinates(family, params, limited)
    if isinstance(family, FactorGaussian):
        return factor_coordinates(family, params, limited)
    if not _is_free(family, params, limited):
        raise InvalidInputError(
            f"standard errors of {family!r} are not known: its parameters have no coordinates that "
            "are free of one another; use another family"
        )
    attributes, positive = attributes_of(family, params), family.support.low >= 0.0

    def shown(at: At, q: int) -> list[ShownParameter]:
        return shown_attributes(attributes, positive, params, at, q, limited)

    return unconstrained_coordinates(family, params, shown)


def _limited(family: Family, params: object, weights: Array, d: int) -> NDArray[np.bool_]:
    """Which components are at a limit, by columns, (K, d)."""
    if isinstance(family, CanDegenerate):
        return family.degenerate(params, weights)
    return np.zeros((len(weights), d), dtype=bool)


class TransformedScores(StatisticScores):
    """Those of the Gaussian distribution of the transformed columns, whose parameters are shown.

    The Jacobian of the transformation does not depend on parameters.
    """

    def __init__(
        self, family: TransformedGaussian, params: GaussianParams, normal: LocalScores
    ) -> None:
        self.family, self.params, self.normal = family, params, normal
        super().__init__(normal.index, normal.n_free)

    def scores(self, x: Array) -> Array:
        return self.normal.scores(self.family.transformed(x))

    def curvature(self, x: Array, weight: Array) -> Array:
        return self.normal.curvature(self.family.transformed(x), weight)

    @property
    def has_information(self) -> bool:
        return has_information(self.normal)

    @property
    def has_steps(self) -> bool:
        return has_steps(self.normal)

    @property
    def _movable(self) -> StatisticScores:
        assert isinstance(self.normal, StatisticScores)
        return self.normal

    def information(self) -> Array:
        return self._movable.information()

    def totals(self, params: GaussianParams, blocks: Blocks) -> Array:
        return self._movable.totals(params, blocks)

    def moved(self, params: GaussianParams, change: Array) -> GaussianParams:
        found: GaussianParams = self._movable.moved(params, change)
        return found

    def shown(self) -> list[ShownParameter]:
        return [replace(one, name=f"transformed_{one.name}") for one in self.normal.shown()]


class ProductScores(StatisticScores):
    """Those of all factors, one after the other."""

    def __init__(self, family: Product, params: ProductParams, weights: Array) -> None:
        self.family, self.params = family, params
        self._places = [part.places for part in family.placed(params)]
        self.parts = [
            local_scores(part.family, part.params, weights, part.width)
            for part in family.placed(params)
        ]
        self._ends = np.cumsum([part.index.shape[1] for part in self.parts])
        index, n_free = [], 0
        for part in self.parts:
            index.append(np.where(part.index < 0, -1, part.index + n_free))
            n_free += part.n_free
        super().__init__(np.hstack(index), n_free)
        assert n_components_of(params) == len(self.index)

    def of_parts(self, parts: list[LocalScores]) -> ProductScores:
        """Other scores of the factors, in the same coordinates."""
        found = copy(self)
        found.parts = parts
        return found

    def scores(self, x: Array) -> Array:
        pairs = zip(self.parts, self._places, strict=True)
        return np.concatenate([part.scores(x[:, places]) for part, places in pairs], axis=2)

    def curvature(self, x: Array, weight: Array) -> Array:
        pairs = zip(self.parts, self._places, strict=True)
        return _joined([part.curvature(x[:, places], weight) for part, places in pairs])

    @property
    def has_information(self) -> bool:
        return all(map(has_information, self.parts))

    def information(self) -> Array:
        return _joined([part.information() for part in self.parts if has_information(part)])

    @property
    def has_steps(self) -> bool:
        return len(self._movable()) == len(self.parts)

    def _movable(self) -> list[StatisticScores]:
        return [part for part in self.parts if has_steps(part)]

    def totals(self, params: ProductParams, blocks: Blocks) -> Array:
        each = zip(
            self._movable(), params.parts, divided_blocks(self.family.groups, blocks), strict=True
        )
        return np.hstack([part.totals(own, some) for part, own, some in each])

    def moved(self, params: ProductParams, change: Array) -> ProductParams:
        changes = np.split(change, self._ends[:-1], axis=1)
        each = zip(self._movable(), params.parts, changes, strict=True)
        return ProductParams(tuple(part.moved(own, some) for part, own, some in each))

    def shown(self) -> list[ShownParameter]:
        found, first = [], 0
        for part, places in zip(self.parts, self._places, strict=True):
            found += [one.moved(first, places) for one in part.shown()]
            first += part.index.shape[1]
        return found


def _joined(parts: list[Array]) -> Array:
    """Matrices (K, q, q) with those of the parts on their diagonals."""
    return np.stack([block_diag(*blocks) for blocks in zip(*parts, strict=True)])
