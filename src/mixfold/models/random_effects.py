"""Base classes of models of subjects with random effects.

A subject is one row: the number of its table rows, then these table rows, padded with zeros to the
size of the largest subject. Its expectations are those of the complete-data statistics, so that
sums are linear in them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import check_kind
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array, Rows
from mixfold.core.statistics import Totals
from mixfold.models.gaussian_effects import GaussianEffects, Structure


def no_closed_form() -> InvalidInputError:
    """The error for a learner that needs the posterior itself."""
    return InvalidInputError(
        "the posterior of a nonlinear mixed model has no closed form: use learner='monte-carlo-em'"
    )


def table_of(x: Array, n_rows: int) -> tuple[Array, NDArray[np.bool_]]:
    """The table (n, n_rows, c) of every subject, and a mask (n, n_rows) that excludes padding."""
    x = np.ascontiguousarray(x, dtype=np.float64)
    there = np.arange(n_rows) < x[:, :1]
    table: Array = x[:, 1:].reshape(len(x), n_rows, -1)
    return table, there


class Conditional(ABC):
    """The complete data of some subjects under fixed parameters, as functions of the effects z."""

    effects: GaussianEffects
    there: Array

    @property
    def n(self) -> int:
        """Number of subjects."""
        return len(self.there)

    @property
    def size(self) -> int:
        """The number of values that one evaluation computes."""
        return int(self.there.size)

    @abstractmethod
    def log_likelihood(self, z: Array) -> Array:
        """log p(y | z), (..., n) for z of shape (..., n, q)."""

    @abstractmethod
    def curvature(self, z: Array) -> tuple[Array, Array, Array]:
        """log p(y | z), its gradient (n, q) and an expected negative Hessian (n, q, q)."""

    @abstractmethod
    def statistics(self, z: Array) -> Array:
        """The statistics of the complete data, (n, s)."""

    def mean_statistics(self, z: Array, weight: Array) -> Array:
        """Means (n, s) of the statistics at points (m, n, q) that have these weights (m, n)."""
        total: Array = weight[0][:, None] * self.statistics(z[0])
        for point, share in zip(z[1:], weight[1:], strict=True):
            total += share[:, None] * self.statistics(point)
        return total

    @abstractmethod
    def scores(self, z: Array) -> Array:
        """The gradient of log p(y, z) in the parameters, (n, r)."""

    def log_joint(self, z: Array) -> Array:
        """log p(y, z), (..., n)."""
        return self.log_likelihood(z) + self.effects.log_density(z)

    def joint_curvature(self, z: Array) -> tuple[Array, Array, Array]:
        """log p(y, z), its gradient and an expected negative Hessian in z."""
        value, gradient, information = self.curvature(z)
        return (
            value + self.effects.log_density(z),
            gradient - self.effects.slope(z),
            information + self.effects.precision,
        )


class RandomEffects(ABC):
    """A model with Gaussian random effects whose posterior has no closed form.

    `maximize` takes complete-data statistics, averaged over draws. `scores` and `information` of
    the complete data give standard errors by Louis' identity.
    """

    n_rows: int
    covariance: Structure
    k = 1
    has_labels = False
    statistics_depend_on_params = False
    has_coordinates = True
    has_bounds = True

    @property
    @abstractmethod
    def n_columns(self) -> int:
        """Columns of a subject's table."""

    @property
    @abstractmethod
    def n_expectations(self) -> int:
        """Number of statistics of a subject."""

    @property
    @abstractmethod
    def n_effects(self) -> int:
        """q, the number of random effects of a subject."""

    @property
    def d(self) -> int:
        """Length of a subject's row."""
        return 1 + self.n_rows * self.n_columns

    @property
    def n_sums(self) -> int:
        """Log-likelihood, weight, statistics."""
        return 2 + self.n_expectations

    @abstractmethod
    def check_params(self, params: Any) -> None:
        """Refuse parameters outside their domain, or of other numbers of effects."""

    def check_statistics(self, statistics: Totals) -> None:
        """Refuse statistics of another length, or that are not finite."""
        check_kind("statistics", statistics, Totals)
        statistics.check(self.n_expectations)

    def check_rows(self, rows: Rows) -> None:
        """Refuse subjects of another width."""
        rows.check(self.d)

    @abstractmethod
    def conditional(self, params: Any, x: Array) -> Conditional:
        """The complete data of subjects."""

    @abstractmethod
    def initial_params(self, x: Array) -> Any:
        """Initial parameters from some subjects."""

    @abstractmethod
    def n_parameters(self) -> int:
        """Number of free parameters."""

    @abstractmethod
    def maximize(self, statistics: Totals) -> tuple[Any, int]:
        """Parameters of highest expected likelihood, and how many variances are on their floor."""

    @abstractmethod
    def expected(self, params: Any) -> Totals:
        """Normalised statistics of which `params` is the maximiser."""

    @abstractmethod
    def information(self, params: Any, statistics: Totals) -> Array:
        """The expected negative Hessian of the complete log-likelihood, (r, r)."""

    @abstractmethod
    def unconstrained(self, params: Any) -> Array:
        """Coordinates (1, L) in which every vector is a parameter."""

    @abstractmethod
    def constrained(self, coordinates: Array, like: Any) -> Any:
        """The inverse of `unconstrained`."""

    def statistics(self, params: Any, sums: Array) -> Totals:
        """Statistics from the sums of an E-step; they do not depend on `params`."""
        return Totals(sums[2:], float(sums[1]), float(sums[0]))

    def sums(self, params: Any, statistics: Totals) -> Array:
        """The inverse of `statistics`."""
        head = [statistics.log_likelihood, statistics.count]
        return np.concatenate([head, statistics.values])

    def recursive(self, statistics: Totals, batch: Totals, gamma: float) -> tuple[Totals, int]:
        """A step of stochastic approximation, which never leaves the domain of statistics."""
        return statistics.mix(batch, gamma), 0

    def mode(self, expectations: Array) -> Array:
        raise no_closed_form()

    def coordinate_scales(self, params: Any) -> Array:
        """The natural length of each unconstrained coordinate."""
        return np.ones_like(self.unconstrained(params))

    def blend(self, a: Any, b: Any, t: float) -> Any:
        """Parameters on the line from `a` to `b`."""
        pairs = ((getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
        return type(a)(*((1.0 - t) * one + t * two for one, two in pairs))

    def truncation_excess(self, params: Any, bounds: tuple[float, float, float]) -> float:
        """How many levels the truncation region must grow to hold `params`; <= 0 is inside."""
        values = np.linalg.eigvalsh(params.covariance)
        location = float(np.abs(params.mean).max())
        steepest = 1.0 / max(float(values[0]), 1e-300)
        return max(location - bounds[1], float(values[-1]) - bounds[2], steepest - bounds[2])
