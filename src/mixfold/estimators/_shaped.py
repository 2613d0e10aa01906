"""Results in the form of the data: collections of a cluster, xarray, tensors, other arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mixfold.core.arrays import is_foreign, is_tensor
from mixfold.core.engine import LazyRows, RowResult, engine_holding
from mixfold.core.source import Source
from mixfold.estimators._edge import remember_columns
from mixfold.estimators._foreign import as_given, as_rows_here
from mixfold.estimators._xarray import CELLS, XArray, is_xarray

Result = Callable[[Any], RowResult]
"""What a method computes for every row, for a fitted estimator."""


def in_form_of_x(
    result: Result, lazy: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a method that computes something for every row return it in the form of its data.

    If it is not `lazy`, what Dask would compute is computed at once.
    """

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def called(self: Any, X: Any, *options: Any, **named: Any) -> Any:
            if is_tensor(X) or is_foreign(X):
                return as_given(method(self, as_rows_here(X), *options, **named), X)
            if not ((lazy and is_lazy(X)) or is_xarray(X)):
                return method(self, X, *options, **named)
            check_is_fitted(self)
            model = self.for_evaluation()
            work = RowMethod(model, method.__name__, options, tuple(named.items()))
            if is_xarray(X):
                given = X if lazy else X.load()
                return XArray(given, known_names(model)).results(work, result(model))
            names, codes = known_names(model), codes_of(model)
            found = _holder(X).map_rows(X, work, result(model), names, codes)
            if names is None:  # else all of them have been found in the data
                width = len(X.columns) if hasattr(X, "columns") else X.shape[1]
                remember_columns(model, None, width, reset=False)
            return found

        return called

    return decorate


def cells_of_rows(model: Any) -> RowResult:
    """A number for every cell."""
    names = known_names(model) or [str(j) for j in range(model.n_features_in_)]
    return RowResult(CELLS, np.float64, names)


def is_lazy(X: Any) -> bool:
    """Whether data are a collection of an engine, for which results are collections too."""
    holder = engine_holding(X)
    return holder is not None and issubclass(holder, LazyRows)


def _holder(X: Any) -> type[LazyRows]:
    holder = engine_holding(X)
    assert holder is not None
    assert issubclass(holder, LazyRows)
    return holder


def known_names(model: Any) -> list[str] | None:
    """The names of the learned columns; None if they have none."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def codes_of(model: Any) -> Any:
    """The codes with which a model reads tables."""
    return model._evaluated_cells(model._current()).codes


def summed(model: Any, parts: Callable[[Any], Iterable[Any]], X: Any, cluster: Any) -> Any:
    """The sum of `parts(rows)` over all rows of a collection, in one computation."""
    work, names = SummedParts(parts), known_names(model)
    return _holder(X).total(X, work, names, codes_of(model), cluster)


@dataclass(frozen=True)
class RowMethod:
    """Calls a method of an estimator with rows."""

    model: Any
    name: str
    options: tuple[Any, ...]
    named: tuple[tuple[str, Any], ...]

    def __call__(self, rows: Any) -> Any:
        return getattr(self.model, self.name)(rows, *self.options, **dict(self.named))


@dataclass(frozen=True)
class SummedParts:
    """Adds what is computed for the blocks of a partition; 0 for one without rows."""

    parts: Callable[[Any], Iterable[Any]]

    def __call__(self, rows: Source) -> Any:
        return sum(self.parts(rows)) if len(rows.head(1)) else 0.0
