"""What a state has learned, and how it is compared."""

from __future__ import annotations

from math import inf, prod
from typing import Any

import numpy as np

from mixfold.core.backend import Backend, Model
from mixfold.core.learner import Learner
from mixfold.core.learner_capabilities import row_keeping
from mixfold.core.rows import Array
from mixfold.models.mixture_model import MixtureModel


def learned(backend: Backend, learner: Learner, state: Any) -> tuple[Backend, Any]:
    """The estimate of a state, and a backend of the model that it is an estimate of.

    The learner may have changed the number of components.
    """
    model = row_keeping(learner).model_learned(backend.model, state)
    return backend.with_model(model), learner.estimate(backend, state)


def is_identifiable(model: Model) -> bool:
    """Whether a row has more possible values than a mixture has parameters."""
    if not isinstance(model, MixtureModel):
        return True
    values = prod(s.high - s.low + 1.0 if s.whole else inf for s in model.family.supports(model.d))
    return model.n_parameters() < values


def coordinates(model: Model, params: Any) -> Array:
    """Numbers by which parameters are compared."""
    if model.has_coordinates:
        return model.unconstrained(params)
    assert isinstance(model, MixtureModel)
    logs = np.log(params.weights)[:, None]
    return np.hstack([logs, model.family.sort_keys(params.components)])
