"""Protocols that only some learners implement.

A learner has a capability if it has the members; there is nothing to register. Each of the
functions `search_of`, `row_keeping` and `for_one_pass` gives a learner's capability, or what holds
for learners without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from mixfold.core.backend import Backend, Model
from mixfold.core.capability import Capability
from mixfold.core.component_decision import ComponentDecision
from mixfold.core.initializer import Initializer
from mixfold.core.learner import Learner, rows_before_start
from mixfold.core.params import StateT
from mixfold.core.rows import Array, Rows


@runtime_checkable
class Mergeable(Capability, Protocol[StateT]):
    """A learner whose states can be merged."""

    def merge(self, backend: Backend, before: StateT, states: Sequence[StateT]) -> StateT:
        """Merge states, each of which was learned from different rows, starting from `before`.

        The result does not depend on the order of the states, and can be merged again.
        """
        ...


@runtime_checkable
class StateOfRows(Protocol):
    """The state of a learner that keeps rows, which states for merging lack."""

    def same_rows(self, states: Sequence[Any]) -> bool:
        """Whether all states have kept the same rows of those that this one had learned."""
        ...


@runtime_checkable
class MonitorsDrift(Capability, Protocol[StateT]):
    """A learner that monitors windows of rows while another one learns them."""

    learner: Any
    window: int

    def monitored(self, backend: Backend, state: StateT, inner: Any, rows: Rows) -> StateT:
        """The state after more rows of a window; `inner` is the state of the inner learner."""
        ...

    def drifts(self, state: StateT) -> list[int]:
        """Numbers of the rows at which the inner learner was restarted."""
        ...

    def moves(self, state: StateT) -> list[Array]:
        """How far every column had moved by then, in deviations; empty where that is not known."""
        ...


@runtime_checkable
class ChoosesComponents(Capability, Protocol):
    """A learner that chooses the number of components, up to that of the model it is given."""

    def most_components(self, state: Any) -> int:
        """The largest number of components."""
        ...

    def decisions(self, state: Any) -> list[ComponentDecision]:
        """The changes of the number of components."""
        ...


def most_components(learner: Learner, state: Any, k: int) -> int:
    """The number of components that a learner was given; `k` is that of the model it learned."""
    if state is None or not isinstance(learner, ChoosesComponents):
        return k
    return learner.most_components(state)


# learners that search for initial parameters


@runtime_checkable
class SearchesStarts(Capability, Protocol):
    """A learner with a prior, under which candidates for the initial parameters are compared.

    With `varied_starts` the candidates are of several kinds, unless the user has named one.
    """

    @property
    def varied_starts(self) -> bool:
        """Whether candidates are of several kinds."""

    @property
    def prior_strength(self) -> float | None:
        """How many times the prior counts; None is chosen by the data."""


class PlainSearch(NamedTuple):
    """The search of other learners: one kind of candidates, compared by their likelihood."""

    varied_starts: bool = False
    prior_strength: float | None = 0.0


def search_of(learner: Learner) -> SearchesStarts:
    """How candidates for the initial parameters of a learner are drawn and compared."""
    return learner if isinstance(learner, SearchesStarts) else PlainSearch()


def at_most(prior_strength: float | None) -> float:
    """The largest strength of a prior of which the data choose a fraction."""
    return 1.0 if prior_strength is None else prior_strength


# learners of streams


@runtime_checkable
class LearnsInOnePass(Capability, Protocol):
    """A learner that is replaced by another one for a source that can be read only once."""

    def for_one_pass(self) -> Learner:
        """The learner for such a source."""
        ...


def for_one_pass(learner: Learner) -> Learner:
    """The learner for a source that can be read only once."""
    return learner.for_one_pass() if isinstance(learner, LearnsInOnePass) else learner


@runtime_checkable
class KeepsRows(Capability, Protocol[StateT]):
    """A learner whose state keeps rows, to draw candidates for the parameters from them later."""

    @property
    def settles_late(self) -> bool:
        """Whether an estimate takes long, so that it is computed when it is asked for."""

    @property
    def searches_later(self) -> bool:
        """Whether the state searches for better parameters than those it began with."""

    def searching_from(self, kinds: tuple[Initializer, ...]) -> Learner:
        """The learner that draws its candidates with these initializers."""
        ...

    def rows_to_start(self, k: int, d: int) -> int:
        """The number of rows of a stream from which initial parameters are drawn."""
        ...

    def model_learned(self, model: Model, state: StateT) -> Model:
        """The model with the limits, and the number of components, that the state has learned."""
        ...

    def settled(self, backend: Backend, state: StateT) -> StateT:
        """The state with what its estimate needs computed, from which later estimates continue."""
        ...

    def rows_until_change(self, model: Model, state: StateT) -> int:
        """How many more rows, each of weight one, change the estimate: fewer leave it as it is."""
        ...

    def without_rows(self, state: StateT) -> StateT:
        """The state without the rows that it keeps, as states for merging are stored."""
        ...


class KeepsNoRows:
    """What holds for a learner whose state keeps no rows."""

    settles_late = False
    searches_later = False

    def __init__(self, learner: Learner) -> None:
        self.learner = learner

    def searching_from(self, kinds: tuple[Initializer, ...]) -> Learner:
        """The learner itself."""
        return self.learner

    def rows_to_start(self, k: int, d: int) -> int:
        """The number of rows of a stream from which initial parameters are drawn."""
        return min(rows_before_start(k, d), max(self.learner.sample_size, k))

    def model_learned(self, model: Model, state: Any) -> Model:
        """The model itself."""
        return model

    def settled(self, backend: Backend, state: Any) -> Any:
        """The state itself."""
        return state

    def rows_until_change(self, model: Model, state: Any) -> int:
        """Every row changes the estimate."""
        return 1

    def without_rows(self, state: Any) -> Any:
        """The state itself."""
        return state


def row_keeping(learner: Learner) -> KeepsRows:
    """How a learner keeps rows, if it does."""
    return learner if isinstance(learner, KeepsRows) else KeepsNoRows(learner)
