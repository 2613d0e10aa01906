"""What a learner is: pure functions of a small state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, Literal

from mixfold.core.backend import Backend, Model
from mixfold.core.checks import check_count
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.params import Params, StateT
from mixfold.core.rows import Rows
from mixfold.core.value import is_value, value

Order = Literal["stream", "with-replacement", "without-replacement"]


@value
class Info:
    """What one update or pass has shown: mean log-likelihood of its rows and the step size.

    `bound` is the mean of what the learner maximises, where that is not the log-likelihood.
    """

    rows: int
    log_likelihood: float
    step_size: float
    bound: float | None = None


def rows_before_start(k: int, d: int) -> int:
    """How many rows of a stream a start is drawn from."""
    return max(100, 20 * k, 5 * d)


class Learner(ABC, Generic[StateT]):
    """state + rows -> state. Hyper-parameters are the fields of a frozen dataclass.

    A state is a value with at least the fields `params` and `n_degenerate`; `Learner[EMState]`
    names its class. The same rows in blocks of any sizes give the same state to the bit. A learner
    that `rereads` needs a source that can be read again, in the same order; one that
    `supports_warm_start` can learn more rows after a whole fit from the state it has. Components of
    an `exchangeable` learner may stand in any order. Initial parameters are the best of `starts`
    candidates, drawn from about `sample_size` rows.

    A learner whose states can be merged is `Mergeable` too: see `core/backend_capabilities.py`
    and `learners/_merging.py`. Its `merge` flushes states that have rows waiting.
    """

    places: ClassVar[tuple[str, ...]] = ()  # fields that name files, which no model file holds
    starts = 1
    sample_size = 20_000
    rereads = False
    supports_warm_start = False
    exchangeable = True

    def default_initializer(self, family: Family) -> str | None:
        """The name of an initializer that suits the learner, where there is one."""
        return None

    def can_continue_from(self, other: Learner) -> bool:
        """Whether the learner can learn more rows from the state that `other` has left."""
        return self.supports_warm_start and isinstance(other, type(self))

    def release(self, state: StateT) -> None:
        """Close files that a state uses; it can still go on."""
        return

    def why_unsupported(self, model: Model) -> str | None:
        """Why the learner cannot learn the model, and what can; None where it can."""
        return None

    def serves(self, model: Model) -> bool:
        """Whether the learner can learn the model."""
        return self.why_unsupported(model) is None

    def warnings(self, model: Model, rows: Rows) -> list[str]:
        """Warnings before learning begins; `rows` are some of the data."""
        return []

    def bounded(self, family: Family) -> Family:
        """The family as the learner learns it, where it bounds what parameters can be."""
        return family

    def resolve(self, n: int | None, d: int, streaming: bool) -> Learner:
        """The learner that fits what is known of the data: its length, or that it never ends."""
        return self

    def order(self, random_access: bool) -> Order:
        """In which order rows are to be drawn from the source."""
        return "stream"

    def prior_count(self, sample: int, k: int, d: int) -> int:
        """How many rows a start drawn from `sample` rows counts for."""
        return 0

    @abstractmethod
    def init(self, backend: Backend, params: Params, seen: int = 0, seed: int = 0) -> StateT:
        """The state before any row; `seen` rows stand behind `params` already."""

    def init_after_fit(
        self, backend: Backend, params: Params, rows: int, weight: float, seed: int = 0
    ) -> StateT:
        """The state before rows that come after a fit of `rows` rows of that weight to `params`."""
        return self.init(backend, params, rows, seed)

    def weight_learned(self, state: StateT, rows: int) -> float:
        """What `rows` rows, all that the state was learned from in any number of passes, weigh."""
        return float(rows)

    @abstractmethod
    def step(self, backend: Backend, state: StateT, rows: Rows) -> tuple[StateT, list[Info]]:
        """Fold rows into the state."""

    @abstractmethod
    def end_pass(self, backend: Backend, state: StateT) -> tuple[StateT, list[Info]]:
        """The source has come to its end once."""

    def run_passes(
        self, backend: Backend, state: StateT, rows: Rows, most: int | None
    ) -> tuple[StateT, list[Info]] | None:
        """Several passes over all rows at once, at most so many; None where one is to be made."""
        return None

    def flushed(self, backend: Backend, state: StateT) -> StateT:
        """The state with the rows that wait folded in: it holds none, and can travel."""
        return state

    def flush(self, backend: Backend, state: StateT) -> tuple[StateT, list[Info]]:
        """What `flushed` returns, with what the rows that waited have shown."""
        return self.flushed(backend, state), []

    def is_reduction(self, state: StateT) -> bool:
        """Whether a pass does nothing but add up rows, so that any cut of it is exact."""
        return False

    def branch(self, model: Model, state: StateT, number: int, of: int) -> StateT:
        """The state from which worker `number` of so many begins: with its own random numbers."""
        return state

    @abstractmethod
    def finished(self, state: StateT) -> bool:
        """Whether another pass is pointless."""

    def converged(self, state: StateT) -> bool:
        """Whether learning has come to rest, where the learner can tell."""
        return True

    def check_state(self, model: Model, state: StateT) -> None:
        """Refuse a state that learning the model cannot have led to."""
        if not is_value(state):
            raise InvalidInputError(f"the state is a {type(state).__name__}: a value is needed")
        model.check_params(state.params)
        check_count("n_degenerate", state.n_degenerate)

    def compact(self, state: StateT) -> StateT:
        """The state without what only another pass would need."""
        return state

    def estimate(self, backend: Backend, state: StateT) -> Any:
        """The parameters to evaluate; they can differ from those being trained."""
        return state.params
