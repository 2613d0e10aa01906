"""The learned state of a linear mixed model with several grouping factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.core.checks import (
    LARGEST_SQUARE,
    LARGEST_SUM,
    LOWEST,
    check_above,
    check_array,
    check_covariance,
    check_kind,
    check_whole,
)
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.core.value import value
from mixfold.estimators._designed import check_design
from mixfold.estimators._effects import Scaling, shown_coefficients
from mixfold.estimators._formula import FormulaDesign
from mixfold.estimators._mixed_summary import GroupingFactor
from mixfold.estimators._observations import check_labels
from mixfold.models.variance_errors import VarianceErrors


@value
class LearnedFactor:
    """A grouping factor: its columns, its groups by the labels in each, and their effects.

    `omega` is in the coordinates of `scaling`, `effects` are in the units of the data.
    """

    name: str
    columns: list[str]
    labels: list[Any]
    design: FormulaDesign
    scaling: Scaling
    omega: Array
    effects: Array

    def check(self, rank: int) -> None:
        """Raise an error for an invalid state."""
        check_kind("design", self.design, FormulaDesign)
        check_kind("scaling", self.scaling, Scaling)
        q = len(self.design.random_names)
        check_design(self.design, rank, q)
        self.scaling.check(len(self.design.names), rank, q)
        check_covariance("omega", self.omega, q)
        check_kind("effects", self.effects, np.ndarray)
        check_array("effects", self.effects, (len(self.effects), q), -LARGEST_SUM, LARGEST_SUM)
        columns = isinstance(self.columns, list) and all(isinstance(c, str) for c in self.columns)
        labels = isinstance(self.labels, list) and len(self.labels) == len(self.columns) > 0
        if not isinstance(self.name, str) or not columns or not labels:
            raise InvalidInputError(f"the factor {self.name!r} needs labels for its columns")
        for label in self.labels:
            check_labels(label, len(self.effects))

    @property
    def groups(self) -> np.ndarray:
        """The groups; those of several columns as text, as in a:b."""
        if len(self.labels) == 1:
            return np.asarray(self.labels[0])
        return np.asarray([":".join(map(str, row)) for row in zip(*self.labels, strict=True)])


@value
class LearnedCrossed:
    """Everything the public attributes are made from."""

    parts: list[LearnedFactor]
    beta: Array
    covariance: Array
    noise_variance: float
    reml: bool
    log_likelihood: float
    restricted_log_likelihood: float
    variance_errors: VarianceErrors
    n_observations: int
    converged: bool

    def check(self) -> None:
        """Raise an error for an invalid state."""
        check_kind("beta", self.beta, np.ndarray)
        rank = len(self.beta)
        check_array("beta", self.beta, (rank,), -LARGEST_SUM, LARGEST_SUM)
        check_array("covariance", self.covariance, (rank, rank), -LARGEST_SUM, LARGEST_SUM)
        check_above("noise_variance", self.noise_variance, LOWEST**2, LARGEST_SQUARE)
        check_whole("n_observations", self.n_observations)
        check_kind("parts", self.parts, list)
        if not self.parts:
            raise InvalidInputError("parts is empty: a grouping factor is needed")
        for part in self.parts:
            check_kind("part", part, LearnedFactor)
            part.check(rank)
            if part.design.names != self.parts[0].design.names:
                raise InvalidInputError("grouping factors have different fixed effects")
        sizes = [len(part.omega) for part in self.parts]
        self.variance_errors.check(sizes, len(self.parts[0].design.names))

    @property
    def n_features(self) -> int:
        """Columns that the effects need."""
        return len({name for part in self.parts for name in part.design.tree.effect_columns})

    @property
    def n_parameters(self) -> int:
        """Free parameters."""
        return len(self.beta) + 1 + sum(q * (q + 1) // 2 for q in map(len, self._omegas()))

    @property
    def response_name(self) -> str:
        """The name of the response."""
        return self.parts[0].design.response_name

    @property
    def group_sizes(self) -> None:
        """Crossed groups have no sizes of their own."""
        return None

    def _omegas(self) -> list[Array]:
        return [part.omega for part in self.parts]

    def factors(self) -> list[GroupingFactor]:
        """The grouping factors."""
        return [
            GroupingFactor(
                part.name,
                part.design.random_names,
                part.scaling.random_covariance(part.omega),
                len(part.effects),
            )
            for part in self.parts
        ]

    def attributes(self) -> dict[str, Any]:
        """The public fitted attributes."""
        scaling = self.parts[0].scaling
        covariance = scaling.coefficient_covariance(self.covariance)
        factors = self.factors()
        return {
            "n_features_in_": self.n_features,
            **shown_coefficients(
                self.parts[0].design.names,
                scaling.offset + scaling.scale * (scaling.turn @ self.beta),
                covariance,
            ),
            "coef_degrees_of_freedom_": self.variance_errors.degrees_of_freedom,
            "random_covariance_": {factor.name: factor.covariance for factor in factors},
            "random_names_": {factor.name: list(factor.effects) for factor in factors},
            "noise_variance_": float(self.noise_variance * scaling.scale**2),
            "log_likelihood_": self.log_likelihood,
            "restricted_log_likelihood_": self.restricted_log_likelihood,
            "n_observations_": self.n_observations,
            "groups_": {part.name: part.groups for part in self.parts},
            "random_effects_": {part.name: part.effects for part in self.parts},
            "converged_": self.converged,
        }
