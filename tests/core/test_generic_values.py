"""Values that are generic, or that hold parameters of any model, are checked like all others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mixfold.backends.threads import Threads
from mixfold.core.engine import DataHolder, engine_holding
from mixfold.core.errors import InvalidInputError, ModelFileError
from mixfold.core.registry import find
from mixfold.core.schema import check_types
from mixfold.core.value import Tree, equal, flatten, unflatten
from mixfold.families.mean_params import MeanParams
from mixfold.families.poisson import Poisson
from mixfold.learners.drift_aware import DriftAware
from mixfold.learners.online_em import OnlineEM
from mixfold.models.mixture_model import MixtureModel, MixtureParams

PARAMS = MixtureParams(np.ones(1), MeanParams(np.ones((1, 1))))
BACKEND = Threads(MixtureModel(Poisson(), 1, 1), 1)


@pytest.mark.parametrize("learner", [OnlineEM(), DriftAware()])
def test_states_survive_flattening(learner: OnlineEM | DriftAware) -> None:
    state = learner.init(BACKEND, PARAMS)
    arrays: dict[str, np.ndarray] = {}
    loaded = unflatten(flatten(state, "state", arrays), arrays)
    assert equal(state, loaded)
    check_types(loaded)


def test_parameters_of_any_model_are_values_or_arrays() -> None:
    check_types(PARAMS)
    with pytest.raises(InvalidInputError, match="components of MixtureParams"):
        check_types(MixtureParams(np.ones(1), {}))
    state = OnlineEM().init(BACKEND, PARAMS)
    with pytest.raises(InvalidInputError, match="average of StochasticState"):
        check_types(replace(state, average=print))


def test_statistics_of_a_state_are_additive() -> None:
    state = replace(OnlineEM().init(BACKEND, PARAMS), statistics=PARAMS)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="statistics of StochasticState is a MixtureParams"):
        check_types(state)


@pytest.mark.parametrize(
    "tree",
    [
        {"array": ["state"]},
        {"array": {}},
        {"value": "MixtureParams", "fields": []},
        {"value": "MixtureParams", "fields": "weights"},
        {"value": ["MixtureParams"], "fields": {}},
    ],
)
def test_trees_of_another_form_are_damage(tree: Tree) -> None:
    with pytest.raises(ModelFileError, match="is damaged"):
        unflatten(tree, {})


def test_only_engines_with_data_of_their_own_open_them() -> None:
    assert issubclass(find("engines", "dask"), DataHolder)
    assert not issubclass(find("engines", "serial"), DataHolder)
    assert engine_holding(np.ones((2, 1))) is None
