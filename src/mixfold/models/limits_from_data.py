"""Mixtures whose parameters have limits that come from the data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mixfold.core.data_limits import limits_of
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.rows import Rows
from mixfold.core.value import replace
from mixfold.models.mixture_model import MixtureBackend, MixtureModel, MixtureParams

MOST_TIMES = 100


def with_model(backend: MixtureBackend, model: MixtureModel) -> MixtureBackend:
    """The backend with another model."""
    return backend if backend.model is model else backend.with_model(model)


def limited(backend: MixtureBackend, sample: Callable[[], Rows]) -> MixtureBackend:
    """The backend whose family has limits from a sample of the data, if it takes any."""
    family = backend.model.family
    if limits_of(family) is None:
        return backend
    return with_model(backend, replace(backend.model, family=with_limits(family, sample())))


def with_limits(family: Family, sample: Rows) -> Family:
    """The family with limits from a sample of the data, if it takes any."""
    known = limits_of(family)
    return family if known is None else known.with_limits(_repeated(sample.on_host()))


def _repeated(rows: Rows) -> NDArray[np.floating]:
    """Repeat rows by their weights, so that a row of weight 2 counts twice; omit weight 0.

    The lightest row counts once, so that a common factor of all weights does not matter.
    """
    if rows.weight is None or not rows.weight.any():
        return rows.x
    lightest = rows.weight[rows.weight > 0].min()
    times = np.clip(np.rint(rows.weight / lightest), 1, MOST_TIMES).astype(np.intp)
    return np.repeat(rows.x, np.where(rows.weight > 0, times, 0), axis=0)


def limited_by(backend: MixtureBackend, params: MixtureParams) -> MixtureBackend:
    """The backend whose family has limits from given parameters, if it takes any."""
    known = limits_of(backend.model.family)
    if known is None:
        return backend
    try:
        backend.model.check_params(params)
    except InvalidInputError:
        return backend  # the initialisation raises the error
    found = known.with_limits_of(params.components, params.weights)
    return with_model(backend, replace(backend.model, family=found))
