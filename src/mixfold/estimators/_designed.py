"""Estimators of mixed models that take formulas or arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mixfold.core.checks import check_least, check_whole
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.estimators._arrays import features_of
from mixfold.estimators._edge import check_finite
from mixfold.estimators._effects import ArrayDesign
from mixfold.estimators._formula import FormulaDesign
from mixfold.estimators._matrices import finite_matrices
from mixfold.estimators._observations import (
    Observations,
    check_labels,
    open_arrays,
    open_formula,
    open_known,
    positions,
)
from mixfold.fitting.loop import check_some


class Effects(NamedTuple):
    """A and B of rows, and the positions of their groups in `groups_`, -1 for new groups."""

    a: Array
    b: Array
    number: np.ndarray


def check_design(design: Any, rank: int, q: int) -> None:
    """Raise an error unless the design has at least `rank` fixed and q random effects."""
    if not isinstance(design, ArrayDesign | FormulaDesign):
        raise InvalidInputError(f"design is {design!r}: a formula, or columns, are needed")
    found = len(design.names), len(design.random_names)
    if found[0] < rank or found[1] != q:
        raise InvalidInputError(f"the design has {found} fixed and random effects, not {(rank, q)}")
    if isinstance(design, ArrayDesign) and design.group is not None:
        check_whole("group", design.group, 0)
        check_least("n_features", design.n_features, design.group + 1)
    if isinstance(design, ArrayDesign) and design.classes is not None:
        check_labels(design.classes, 2)


class Designed(BaseEstimator):  # type: ignore[misc]
    """An estimator whose effects are given by a formula, or by the columns of arrays."""

    formula: str | None
    random: str | None
    group: str | int | None
    fit_intercept: bool

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True  # for arrays; with a formula the response is a column of X
        return tags

    def _open(self, X: Any, y: Any, groups: Any, Z: Any, group_weight: Any) -> Observations:
        if self.formula is None:
            group = self._group_number()
            design = ArrayDesign([], [], bool(self.fit_intercept), group)
            features = features_of(self, X, groups, group, fit=True)
            return open_arrays(features, y, Z, design, group_weight)
        self._check_no_arrays(y, groups, Z)
        self.__dict__.pop("feature_names_in_", None)
        return open_formula(X, self.formula, self.random or "~ 1", self.group, group_weight)

    def _group_number(self) -> int | None:
        """The number of the column of X that holds the groups, or None."""
        for name, given in (("random", self.random), ("group", self.group)):
            if isinstance(given, str):
                raise InvalidInputError(f"{name} is {given!r}, which needs a formula")
        if self.group is None:
            return None
        check_whole("group", self.group, 0)
        return int(self.group)

    def _check_no_arrays(self, y: Any, groups: Any, Z: Any) -> None:
        for name, given in (("y", y), ("groups", groups), ("Z", Z)):
            if given is not None:
                raise InvalidInputError(
                    f"{name} is given, but the formula {self.formula!r} names the columns to use"
                )

    def _open_again(self, X: Any, y: Any, groups: Any, Z: Any, response: bool) -> Observations:
        """Open data with the columns and levels of the data of `fit`."""
        design = self._learned.design
        if isinstance(design, FormulaDesign):
            self._check_no_arrays(y, groups, Z)
            return open_known(X, design, response)
        features = features_of(self, X, groups, design.group, fit=False)
        if y is None and not response:  # the responses are to be predicted
            y = np.zeros(len(features.x))
            features = features if features.groups is not None else features._replace(groups=y)
        data = open_arrays(features, y, Z, design, None)
        if (data.design.names, data.design.random_names) != (design.names, design.random_names):
            raise InvalidInputError(
                f"the effects are {data.design.names} and {data.design.random_names}, but what has "
                f"been learned has {design.names} and {design.random_names}"
            )
        return data

    def _responses(self, X: Any) -> Array:
        """The response of the formula."""
        data = self._open_again(X, None, None, None, response=True)
        parts = [data.design.matrices(rows.x[:, 1:])[0] for rows in data.source.blocks()]
        return np.concatenate(parts)

    def _effects(self, X: Any, groups: Any, Z: Any) -> Iterator[Effects]:
        """Blocks of rows whose responses are to be predicted."""
        check_is_fitted(self)
        design = self._learned.design
        named = isinstance(design, FormulaDesign) or design.group is not None or groups is not None
        data = self._open_again(X, None, groups, Z, response=False)
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
