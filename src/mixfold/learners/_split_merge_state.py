"""The state of a learner of streams that changes the number of components."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mixfold.core.backend import Model
from mixfold.core.checks import check_count, check_kind, check_least, check_whole
from mixfold.core.component_decision import ComponentDecision
from mixfold.core.errors import InvalidInputError
from mixfold.core.params import Params
from mixfold.core.value import replace, value
from mixfold.learners._gathering import expecting, nothing, total
from mixfold.learners._kept_rows import nothing_kept
from mixfold.learners._refits import statistics_of
from mixfold.learners._reservoir_state import ReservoirState
from mixfold.models.mixture_model import MixtureBackend, MixtureModel, MixtureParams

MOST_DECISIONS = 1000  # that are kept


@value
class SplitMergeState:
    """The rows and parameters of the current components, and how their number has changed.

    `inner` is the state of `ReservoirEM` for the current number of components. `most` is the
    largest number, `decided` the number of rows at the last decision, and `searched` that
    at the last search for new candidates.
    """

    inner: ReservoirState
    most: int
    decided: int
    searched: int
    decisions: list[ComponentDecision]
    passes: int = 0

    @property
    def params(self) -> Params:
        """Parameters of the last decision."""
        return self.inner.params

    def same_rows(self, states: Sequence[SplitMergeState]) -> bool:
        """Whether all states have kept the same rows of those that this one had learned."""
        return self.inner.same_rows([state.inner for state in states])

    @property
    def n_degenerate(self) -> int:
        """The number of degenerate components."""
        return self.inner.n_degenerate

    @property
    def rows(self) -> int:
        """The number of rows of the stream."""
        return self.inner.rows

    @property
    def k(self) -> int:
        """The current number of components."""
        return len(self.inner.mixture.weights)

    def check(self, model: Model) -> None:
        """Raise an error for a state that is not valid for the model, whose K is not used."""
        check_kind("params", self.inner.params, MixtureParams)
        weights = self.inner.mixture.weights
        if not isinstance(weights, np.ndarray) or weights.ndim != 1 or not len(weights):
            raise InvalidInputError("weights are not a row of numbers, one for each component")
        self.inner.check(with_k(model, self.k))
        check_whole("most", self.most)
        if self.k > self.most:
            raise InvalidInputError(f"there are {self.k} components, but at most {self.most}")
        for name in ("decided", "searched", "passes"):
            check_count(name, getattr(self, name))
        check_least("rows", self.rows, self.decided)
        if len(self.decisions) > MOST_DECISIONS:
            raise InvalidInputError(f"there are {len(self.decisions)} decisions")
        for decision in self.decisions:
            decision.check()


def with_k(model: Model, k: int) -> MixtureModel:
    """The mixture with another number of components."""
    assert isinstance(model, MixtureModel)
    return model if model.k == k else replace(model, k=k)


def with_components(
    before: MixtureBackend, after: MixtureBackend, state: ReservoirState, params: MixtureParams
) -> ReservoirState:
    """The state with other components, for which statistics are computed from the kept rows.

    `before` and `after` are bound to the models of the two numbers of components.
    """
    family, n = after.model.family, state.gathered.n
    changed = replace(state, params=params, family=family, fit=None)
    if state.statistics is None:
        return replace(changed, gathered=replace(nothing(after), n=n))
    recent = before.model.statistics(
        state.mixture, total(expecting(before, state.mixture), state.gathered)
    )
    count = float(state.statistics.count + recent.count)
    if len(state.kept):
        now = statistics_of(after, params, state.kept.parts())
        statistics = now * (count / now.count)
    else:
        statistics = after.model.expected(params) * count
    return replace(changed, statistics=statistics, gathered=nothing(after))


def with_latest_rows(backend: MixtureBackend, state: ReservoirState, number: int) -> ReservoirState:
    """The state with the latest rows alone, which it has kept."""
    if state.rows <= number:
        return state
    latest = state.kept.since(state.rows - number)
    return replace(
        state,
        kept=nothing_kept(state.kept.below).joined(latest),
        statistics=None,
        gathered=replace(nothing(backend), n=state.rows),
        fit=None,
    )


def united_decisions(
    before: SplitMergeState, states: Sequence[SplitMergeState]
) -> list[ComponentDecision]:
    """The decisions of all states, those that they have in common once."""
    later = [one for state in states for one in state.decisions if one.rows > before.rows]
    return [*before.decisions, *sorted(later, key=lambda one: one.rows)][-MOST_DECISIONS:]
