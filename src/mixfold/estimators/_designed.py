"""What estimators of mixed models share that take formulas or arrays."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

from mixfold.core.errors import InvalidInputError
from mixfold.estimators._formula import FormulaDesign
from mixfold.estimators._observations import Observations, open_arrays, open_formula, open_known


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
