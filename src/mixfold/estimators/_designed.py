"""What estimators of mixed models share that take formulas or arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.estimators._edge import check_finite
from mixfold.estimators._effects import ArrayDesign
from mixfold.estimators._formula import FormulaDesign
from mixfold.estimators._matrices import finite_matrices
from mixfold.estimators._observations import (
    Observations,
    open_arrays,
    open_formula,
    open_known,
    positions,
)
from mixfold.run.loop import check_some


class Effects(NamedTuple):
    """A and B of rows, and where their groups stand in `groups_`: -1 for others."""

    a: Array
    b: Array
    number: np.ndarray


def check_design(design: Any, p: int, q: int) -> None:
    """Refuse what does not make columns of p fixed and q random effects."""
    if not isinstance(design, ArrayDesign | FormulaDesign):
        raise InvalidInputError(f"design is {design!r}: a formula, or columns, are needed")
    found = len(design.names), len(design.random_names)
    if found != (p, q):
        raise InvalidInputError(f"the design has {found} fixed and random effects, not {(p, q)}")


class Designed(BaseEstimator):  # type: ignore[misc]
    """An estimator whose effects are given by a formula, or by the columns of arrays."""

    formula: str | None
    random: str | None
    group: str | None
    fit_intercept: bool

    def _open(self, X: Any, y: Any, groups: Any, Z: Any, sample_weight: Any) -> Observations:
        if self.formula is None:
            for name in ("random", "group"):
                if getattr(self, name) is not None:
                    raise InvalidInputError(
                        f"{name} is {getattr(self, name)!r}, which needs a formula"
                    )
            return open_arrays(X, y, groups, Z, self.fit_intercept, sample_weight)
        self._check_no_arrays(y, groups, Z)
        return open_formula(X, self.formula, self.random or "~ 1", self.group, sample_weight)

    def _check_no_arrays(self, y: Any, groups: Any, Z: Any) -> None:
        for name, given in (("y", y), ("groups", groups), ("Z", Z)):
            if given is not None:
                raise InvalidInputError(
                    f"{name} is given, but the formula {self.formula!r} names the columns to use"
                )

    def _open_again(self, X: Any, y: Any, groups: Any, Z: Any, response: bool) -> Observations:
        """Data with the columns and levels of those that were learned."""
        design = self._learned.design
        if isinstance(design, FormulaDesign):
            self._check_no_arrays(y, groups, Z)
            return open_known(X, design, response)
        data = open_arrays(X, y, groups, Z, design.intercept)
        if (data.design.names, data.design.random_names) != (design.names, design.random_names):
            raise InvalidInputError(
                f"the effects are {data.design.names} and {data.design.random_names}, but what has "
                f"been learned has {design.names} and {design.random_names}"
            )
        return data

    def _effects(self, X: Any, groups: Any, Z: Any) -> Iterator[Effects]:
        """Blocks of rows whose responses are to be predicted."""
        check_is_fitted(self)
        formula = isinstance(self._learned.design, FormulaDesign)
        named = formula or groups is not None
        y = None if formula else np.zeros(len(X))
        data = self._open_again(X, y, groups if named else y, Z, response=False)
        known, first = self.__dict__.get("groups_") if named else None, 0
        for rows in data.source.blocks():
            numbers = range(first, first + len(rows))
            check_finite(data.source.columns, rows, numbers)
            _, a, b = finite_matrices(data.design, rows, numbers, response=False)
            number = np.full(len(rows), -1)
            if known is not None:
                number = positions(known, data.labels(rows.x[:, 0]))
            yield Effects(a, b, number)
            first += len(rows)
        check_some(first, 1.0)
