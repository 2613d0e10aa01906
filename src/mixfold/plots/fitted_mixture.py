"""A fitted mixture with the rows and the names that its pictures show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from mixfold.core.capabilities import MeanResultants
from mixfold.core.family import Family
from mixfold.core.rows import Array
from mixfold.families import conditional_cells
from mixfold.families.incomplete_rows import find_dependent, with_missing
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.models.noise_mixture import NoiseMixture, NoiseParams

LEVELS, COUNTS, NUMBERS = "levels", "counts", "numbers"
DRAWS = 200  # from each component, which show where its density is


@dataclass(frozen=True)
class Column:
    """The name of a column, its levels if it has categories, and the Arrow type of dates."""

    name: str
    levels: tuple[Any, ...] | None = None
    date_type: str = ""


@dataclass(frozen=True, eq=False)
class FittedMixture:
    """Model, parameters and columns, and a sample of rows (n, d) with their components.

    Labels are -1 for noise.
    """

    model: MixtureModel
    params: MixtureParams
    columns: tuple[Column, ...]
    x: Array | None = None
    labels: np.ndarray | None = None
    named: bool = False  # whether the columns have names of their own

    @property
    def k(self) -> int:
        """The number of components."""
        return len(self.params.weights)

    @property
    def d(self) -> int:
        """The number of columns."""
        return len(self.columns)

    @property
    def weights(self) -> Array:
        """Weights of the components, which sum to one less the weight of noise."""
        return self.params.weights

    @property
    def noise(self) -> float | None:
        """The weight of noise; None if the model has none."""
        return self.params.noise if isinstance(self.params, NoiseParams) else None

    @property
    def family(self) -> Family:
        """The family of complete rows."""
        return self.model.family.for_complete_rows()

    @property
    def has_marginals(self) -> bool:
        """Whether the distributions of single columns are known."""
        return find_dependent(self.family) is None

    def marginal(self, *chosen: int) -> Marginal:
        """The distributions of some of the columns."""
        known = with_missing(self.family)
        family, params = conditional_cells.marginal(known, self.params.components, list(chosen))
        return Marginal(family.for_complete_rows(), params, len(chosen), self.k)

    def of_columns(self, chosen: Sequence[int]) -> Self:
        """The mixture of some of the columns."""
        if list(chosen) == list(range(self.d)):
            return self
        found = self.marginal(*chosen)
        model = MixtureModel(found.family, self.k, len(chosen))
        if isinstance(self.model, NoiseMixture):
            model = _narrowed(self.model, found.family, chosen)
        columns = tuple(self.columns[j] for j in chosen)
        x = None if self.x is None else self.x[:, chosen]
        params = replace(self.params, components=found.params)
        return replace(self, model=model, params=params, columns=columns, x=x)

    def holds(self, column: int) -> str:
        """What a column holds: levels, counts or numbers."""
        support = self.family.supports(self.d)[column]
        own = self.family.at_column(column)
        if self.columns[column].levels is not None or own.has_categories:
            return LEVELS
        if support.whole:
            return LEVELS if support.high == 1.0 else COUNTS
        return NUMBERS

    @cached_property
    def kinds(self) -> list[str]:
        """What the columns hold."""
        return [self.holds(j) for j in range(self.d)]

    @cached_property
    def rows(self) -> Array:
        """The sample of rows, (n, d), with angles from -pi to pi; empty if there is none."""
        if self.x is None:
            return np.empty((0, self.d))
        x = np.array(self.x, dtype=np.float64)
        for j in filter(self.has_angles, range(self.d)):
            x[:, j] = np.arctan2(np.sin(x[:, j]), np.cos(x[:, j]))
        return x

    def some_rows(self, most: int) -> np.ndarray:
        """Numbers of at most so many rows, evenly spaced."""
        n = len(self.rows)
        return np.unique(np.linspace(0, max(n - 1, 0), min(n, most)).round()).astype(np.intp)

    def has_angles(self, column: int) -> bool:
        """Whether a column has angles, which begin anew after a turn."""
        return isinstance(self.family.at_column(column), MeanResultants)

    def observed(self, column: int) -> Array:
        """The observed cells of a column in the sample of rows."""
        cells = self.rows[:, column]
        return cells[~np.isnan(cells)]


@dataclass(frozen=True, eq=False)
class Marginal:
    """The distributions of some columns in K components."""

    family: Family
    params: Any
    d: int
    k: int

    def densities(self, x: Array) -> Array:
        """p(x | k) of rows (n, d), (n, K)."""
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(np.exp(self.family.log_density(self.params, x)))

    @cached_property
    def draws(self) -> Array:
        """Rows drawn from every component, (K, DRAWS, d)."""
        labels = np.repeat(np.arange(self.k), DRAWS)
        drawn = self.family.sample(self.params, labels, np.random.default_rng(0))
        return drawn.reshape(self.k, DRAWS, self.d)


def _narrowed(model: NoiseMixture, family: Family, chosen: Sequence[int]) -> NoiseMixture:
    """The mixture with noise in the sides of the box that belong to the chosen columns."""
    box = model.box
    sides = {name: getattr(box, name)[list(chosen)] for name in ("low", "high", "whole")}
    return replace(model, family=family, d=len(chosen), box=replace(box, **sides))
