"""States of learners that continue with another family."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from mixfold.core.family import Family
from mixfold.core.family_change import FamilyChange
from mixfold.core.statistics import Statistics
from mixfold.core.value import field_names, is_value, replace
from mixfold.learners._gathering import Gathered
from mixfold.models.bayesian_mixture import BayesianMixture, MixturePosterior
from mixfold.models.mixture_model import MixtureModel, MixtureParams

T = TypeVar("T")


def changed_model(model: MixtureModel, change: FamilyChange) -> MixtureModel:
    """The mixture of the other family."""
    return replace(model, family=change.family(model.family))


def changed_state(thing: T, model: MixtureModel, change: FamilyChange) -> T:
    """A tree of values with the parameters and statistics of the other family.

    `model` is the mixture before. Rows are kept as they are, and so is everything that no family is
    needed for. Posteriors are those of the same parameters: a learner that has one adds no levels.
    """
    return _Changed(model, changed_model(model, change), change).value(thing)  # type: ignore[no-any-return]


class _Changed:
    """The parts of a state under another family."""

    def __init__(self, model: MixtureModel, after: MixtureModel, change: FamilyChange) -> None:
        self.model, self.after, self.change = model, after, change

    def value(self, thing: Any, params: Any = None) -> Any:
        """A part of the state; `params` are those under which sums in it were computed."""
        if isinstance(thing, list | tuple):
            return type(thing)(self.value(item, params) for item in thing)
        if isinstance(thing, Family):
            return self.change.family(thing)
        found = thing
        if isinstance(thing, MixtureParams):
            components = self.change.components(self.model.family, thing.components)
            found = replace(thing, components=components)
        elif isinstance(thing, Statistics):
            found = self._statistics(thing)
        elif isinstance(thing, Gathered):
            found = replace(thing, sums=self._sums(thing, params))
        elif is_value(thing):
            found = self._fields(thing, params)
        return found

    def _fields(self, thing: Any, params: Any) -> Any:
        names = field_names(thing)
        params = thing.params if "params" in names else params
        parts = {name: getattr(thing, name) for name in names}
        found = {name: self.value(part, params) for name, part in parts.items()}
        return replace(thing, **{n: part for n, part in found.items() if part is not parts[n]})

    def _statistics(self, statistics: Statistics) -> Statistics:
        blocks = self.change.blocks(self.model.family, statistics.blocks, self.model.d)
        return replace(statistics, blocks=blocks)

    def _sums(self, gathered: Gathered, params: Any) -> Any:
        before, after = _used(self.model, params), _used(self.after, self.value(params))
        k = len(before.weights)  # the learner may have changed the number of components
        model, other = replace(self.model, k=k), replace(self.after, k=k)
        if not gathered.sums.any():
            return np.zeros(other.n_sums)
        return other.sums(after, self._statistics(model.statistics(before, gathered.sums)))


def _used(model: MixtureModel, params: Any) -> MixtureParams:
    """The parameters under which sums were computed."""
    if isinstance(params, MixturePosterior):
        return BayesianMixture(model).expected_log_params(params)
    assert isinstance(params, MixtureParams)
    return params
