"""Scaled observations of groups, which are the rows of linear mixed-effects models."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import LARGEST_SUM, check_above, check_array
from mixfold.core.errors import CollinearColumnsWarning, InvalidInputError, warn
from mixfold.core.rows import Array, Rows
from mixfold.core.value import value
from mixfold.estimators._matrices import finite_matrices
from mixfold.models.linear_mixed import LEAST_SHARE, LinearMixedParams
from mixfold.models.subject_rows import subject_rows

SINGULAR = 1e-9
LEAST_SCALE = 1e-8
CHUNK = 4096


class Design(Protocol):
    """Computes y, A and B from rows."""

    @property
    def names(self) -> list[str]: ...
    @property
    def random_names(self) -> list[str]: ...
    def matrices(self, x: Array, response: bool = True) -> tuple[Array, Array, Array]: ...


@value
class ArrayDesign:
    """Rows hold y, then the columns of X, then those of Z.

    `intercept` puts a column of ones before X; without Z the random effect is an intercept. `group`
    is the number of the column of X that holds the groups, or None, and `classes` are the two
    labels of a response that is coded as 0 and 1.
    """

    features: list[str]
    random_features: list[str]
    intercept: bool
    group: int | None = None
    classes: Any = None

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return len(self.features) + (self.group is not None)

    @property
    def response_name(self) -> str:
        """The name of the argument that holds the response."""
        return "y"

    @property
    def names(self) -> list[str]:
        """Columns of A."""
        return [*(["Intercept"] if self.intercept else []), *self.features]

    @property
    def random_names(self) -> list[str]:
        """Columns of B."""
        return self.random_features or ["Intercept"]

    def matrices(self, x: Array, response: bool = True) -> tuple[Array, Array, Array]:
        """y, A and B of rows."""
        ones = np.ones((len(x), 1))
        last = 1 + len(self.features)
        a = np.hstack([ones, x[:, 1:last]]) if self.intercept else x[:, 1:last]
        return x[:, 0], a, x[:, last:] if self.random_features else ones


@value
class Scaling:
    """Coordinates in which the model is learned.

    A is replaced by A `turn`, whose columns are orthonormal on average, y by the residual of least
    squares, (y - A `offset`) / `scale`, and columns of B are divided by their root mean squares.
    Columns of A that are dropped have rows of zeros in `turn`, (p, rank).
    """

    offset: Array
    turn: Array
    spread: Array
    scale: float

    @property
    def rank(self) -> int:
        """The number of columns of A that are not dropped."""
        return int(self.turn.shape[1])

    @property
    def left_out(self) -> NDArray[np.bool_]:
        """Which columns of A are dropped, (p,)."""
        return np.asarray(~self.turn.any(axis=1))

    def check(self, p: int, rank: int, q: int) -> None:
        """Raise an error for other numbers of effects, and for scales that are not positive."""
        high = LARGEST_SUM  # bound of ratios between columns, which may be in any units
        check_array("offset", self.offset, (p,), -high, high)
        check_array("turn", self.turn, (p, rank), -high, high)
        check_array("spread", self.spread, (q,), 1.0 / high, high)
        check_above("scale", self.scale, 0.0, high)

    def subjects(self, y: Array, a: Array, b: Array, starts: np.ndarray) -> Array:
        """Subjects of the groups that begin at `starts`."""
        # by columns: the rounding of a matrix product depends on how many rows it has
        columns = [sum_columns(a, turn) for turn in self.turn.T]
        residual = (y - sum_columns(a, self.offset)) / self.scale
        return subject_rows(np.column_stack(columns), b / self.spread, residual, starts)

    def fold(self, design: Design, x: Array, starts: np.ndarray) -> Array:
        """Subjects of rows (group, variables ...) whose groups begin at `starts`."""
        return self.subjects(*design.matrices(x[:, 1:].astype(np.float64, copy=False)), starts)

    def coefficients(self, params: LinearMixedParams) -> Array:
        """Fixed effects in the units of the data."""
        return self.offset + self.scale * (self.turn @ params.beta)

    def coefficient_covariance(self, inside: Array) -> Array:
        """The covariance of the estimated fixed effects, NaN for those that are dropped."""
        covariance = self.scale**2 * (self.turn @ inside @ self.turn.T)
        return np.where(self.left_out[:, None] | self.left_out, np.nan, covariance)

    def random_covariance(self, omega: Array) -> Array:
        """Omega in the units of the data."""
        return np.asarray(self.scale**2 * omega / np.outer(self.spread, self.spread))

    def inner_covariance(self, omega: Array) -> Array:
        """The inverse of `random_covariance`."""
        return np.asarray(omega * np.outer(self.spread, self.spread) / self.scale**2)

    def effects(self, z: Array) -> Array:
        """Random effects in the units of the data."""
        return np.asarray(z * self.scale / self.spread)


def sum_columns(a: Array, weights: Array) -> Array:
    """a @ weights, whose rounding in a row does not depend on the other rows."""
    total = np.zeros(len(a))
    for column, weight in zip(a.T, weights, strict=True):
        if weight != 0.0:
            total += weight * column
    return total


class Observed:
    """Accumulates the factor R of the QR decomposition of [A y], and scales, over all rows.

    Rows are added in chunks of a fixed length, so that results do not depend on the blocks.
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        width = len(design.names) + 1
        self._triangle = np.zeros((0, width))
        self._squares = np.zeros(len(design.random_names))
        self._waiting = np.zeros((0, width + len(design.random_names)))
        self.n = 0

    def see(self, rows: Rows, numbers: Sequence[int]) -> None:
        """Add a block of rows."""
        self.take(*finite_matrices(self.design, rows, numbers))

    def take(self, y: Array, a: Array, b: Array) -> None:
        """Add the matrices of a block of rows."""
        self.n += len(y)
        table = np.vstack([self._waiting, np.column_stack([a, y, b])])
        whole = len(table) - len(table) % CHUNK
        for first in range(0, whole, CHUNK):
            self._take(table[first : first + CHUNK])
        self._waiting = table[whole:]

    def _take(self, table: Array) -> None:
        width = self._triangle.shape[1]
        stacked = np.vstack([self._triangle, table[:, :width]])
        self._triangle = np.asarray(np.linalg.qr(stacked, mode="r"))
        self._squares = self._squares + np.square(table[:, width:]).sum(axis=0)

    def fold(self, x: Array, starts: np.ndarray) -> Array:
        """Subjects of rows, after all rows have been added."""
        return self.scaling.fold(self.design, x, starts)

    @cached_property
    def scaling(self) -> Scaling:
        """The scaling by least squares, without linearly dependent columns."""
        self._take(self._waiting)
        names, p = self.design.names, len(self.design.names)
        if len(self._triangle) < p:
            raise InvalidInputError(
                f"{self.n} rows cannot determine {p} fixed effects: {', '.join(names)}; "
                f"n_samples = {self.n}, and more are needed"
            )
        kept = independent_columns(self._triangle[:, :p])
        if not kept:
            raise InvalidInputError(
                f"the fixed effects {', '.join(names)} are zero in every row: use other columns"
            )
        r = self._triangle
        if len(kept) < p:
            r = np.asarray(np.linalg.qr(r[:, [*kept, p]], mode="r"))
        self._check_random()
        inverse = np.linalg.inv(r[: len(kept), : len(kept)])
        offset, turn = np.zeros(p), np.zeros((p, len(kept)))
        offset[kept], turn[kept] = inverse @ r[: len(kept), -1], inverse * np.sqrt(self.n)
        left = abs(float(r[-1, -1])) if len(r) > len(kept) else 0.0
        length = float(np.sqrt(np.square(r[:, -1]).sum()))
        scale = max(left, LEAST_SCALE * length) / np.sqrt(self.n)
        spread = np.sqrt(self._squares / self.n)
        return Scaling(offset, turn, spread, float(scale) if scale > 0.0 else 1.0)

    def _check_random(self) -> None:
        for name, square in zip(self.design.random_names, self._squares, strict=True):
            if square == 0.0:
                raise InvalidInputError(
                    f"the random effect {name!r} is zero in every row; leave it out"
                )


def independent_columns(r: Array) -> list[int]:
    """Columns of a triangle that are not linear combinations of those before them."""
    kept: list[int] = []
    basis = np.zeros((len(r), 0))
    for j, column in enumerate(r.T):
        away = column - basis @ (basis.T @ column)
        away = away - basis @ (basis.T @ away)  # repeated to remove rounding errors
        length = np.sqrt(np.square(away).sum())
        if length > SINGULAR * np.sqrt(np.square(column).sum()):
            kept.append(j)
            basis = np.column_stack([basis, away / length])
    return kept


def warn_of_collinear(names: list[str], scaling: Scaling) -> None:
    """Warn about dropped columns, and name those of which they are combinations."""
    dropped = np.flatnonzero(scaling.left_out)
    if not len(dropped):
        return
    others = [names[j] for j in np.flatnonzero(~scaling.left_out) if j < dropped[-1]]
    warn(
        "the fixed effects do not have full rank: "
        f"{', '.join(repr(names[j]) for j in dropped)} are zero in every row, or linear "
        f"combinations of {', '.join(others) or 'no others'}. They are dropped: their coefficients "
        "are 0, without standard errors, and the others are estimated as if they were not there",
        CollinearColumnsWarning,
    )


def known_covariance(given: Any, q: int) -> Array:
    """Check a covariance of random effects that the user has given."""
    try:
        omega = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        omega = np.full((q, q), np.nan)
    omega = np.diag(omega) if omega.ndim == 1 else omega.reshape(1, 1) if not omega.ndim else omega
    fits = omega.shape == (q, q) and np.isfinite(omega).all() and np.allclose(omega, omega.T)
    sizes = np.linalg.eigvalsh(omega) if fits else np.zeros(1)
    if not sizes.min() > LEAST_SHARE * sizes.max():
        raise InvalidInputError(
            f"omega is {given!r}: a positive definite ({q}, {q}) matrix is needed"
        )
    return omega


def shown_coefficients(names: Sequence[str], coef: Array, covariance: Array) -> dict[str, Any]:
    """The fitted attributes of fixed effects with this covariance matrix."""
    return {
        "coef_": coef,
        "coef_names_": list(names),
        "coef_std_errors_": np.sqrt(np.diag(covariance)),
        "coef_covariance_": covariance,
    }
