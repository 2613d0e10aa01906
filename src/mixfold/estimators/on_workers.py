"""Evaluation of mixtures by the workers that hold the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mixfold.core.arrays import concatenated
from mixfold.core.engine import ColumnAppender, appender_holding
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.models.mixture_model import MixtureModel

PREDICT, PREDICT_PROBA, SCORE_SAMPLES, SCORE = "predict", "predict_proba", "score_samples", "score"
COLUMNS = {PREDICT: "prediction", PREDICT_PROBA: "probability", SCORE_SAMPLES: "log_density"}
KINDS = {PREDICT: "int", PREDICT_PROBA: "doubles", SCORE_SAMPLES: "double"}

Method = TypeVar("Method", bound=Callable[..., Any])


def by_workers(method: Method) -> Method:
    """Let workers evaluate rows that they hold, by appending a column to the user's collection."""

    @wraps(method)
    def evaluate(self: Any, X: Any, *others: Any, **named: Any) -> Any:
        appender = appender_holding(X)
        if appender is None:
            return method(self, X, *others, **named)
        if method.__name__ == SCORE:
            return _score(appender, self, X)
        return append_columns(self, X, {COLUMNS[method.__name__]: method.__name__})

    return evaluate  # type: ignore[return-value]


def _score(appender: type[ColumnAppender], model: Any, data: Any) -> float:
    """The mean log-density of the rows of a collection."""
    name = COLUMNS[SCORE_SAMPLES]
    while name in data.columns:
        name += "_"
    return appender.mean(append_columns(model, data, {name: SCORE_SAMPLES}), name)


def append_columns(
    model: Any,
    data: Any,
    wanted: Mapping[str, str],
    kinds: Mapping[str, str] = KINDS,
    columns: Any = None,
) -> Any:
    """A collection with columns of what methods of the model find.

    `wanted` are the methods by the names of the columns, and `columns` those that are read, by
    default those of the fit.
    """
    check_is_fitted(model)
    appender = appender_holding(data)
    if appender is None:
        raise InvalidInputError(
            f"X is a {type(data).__name__}: a DataFrame whose rows are with workers is needed"
        )
    names = getattr(model, "feature_names_in_", None) if columns is None else columns
    sent = model._for_workers()
    types = {column: kinds[method] for column, method in wanted.items()}
    chosen = None if names is None else [str(name) for name in names]
    return appender.with_columns(data, chosen, types, partial(_found, sent, dict(wanted)))


def _found(model: Any, wanted: Mapping[str, str], rows: Any) -> dict[str, Any]:
    """What methods of the model find of some rows, from one evaluation of them."""
    parts = list(model.iter_posteriors(rows))
    responsibilities = concatenated([part[1] for part in parts])
    found = {
        PREDICT: noise_last(responsibilities.argmax(axis=1), model.model_),
        PREDICT_PROBA: responsibilities,
        SCORE_SAMPLES: concatenated([part[0] for part in parts]),
    }
    return {column: np.asarray(found[method]) for column, method in wanted.items()}


def noise_last(labels: Array, model: MixtureModel) -> Any:
    """Labels with -1 in place of the number of noise, which comes after the K components."""
    return labels - (model.k + 1) * (labels == model.k) if model.has_noise else labels
