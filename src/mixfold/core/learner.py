"""The base class of learners: pure functions of a small state."""

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
    """The result of an update or a pass: mean log-likelihood of its rows, and the step size.

    `bound` is the mean of the lower bound that the learner maximises, if it does.
    """

    rows: int
    log_likelihood: float
    step_size: float
    bound: float | None = None


def rows_before_start(k: int, d: int) -> int:
    """The number of rows of a stream from which the initial parameters are drawn."""
    return max(100, 20 * k, 5 * d)


class Learner(ABC, Generic[StateT]):
    """state + rows -> state. Hyper-parameters are the fields of a frozen dataclass.

    A state is a value with at least the fields `params` and `n_degenerate`; `Learner[EMState]`
    names its class. The same rows in blocks of any sizes give the same state to the bit. A learner
    that `rereads` needs a source that can be read again in the same order. One that
    `supports_warm_start` can continue from its state after a fit. If the learner is `exchangeable`,
    components may be put into any order. One that `adds_levels` can continue when a column has a
    category that it did not have before, one that `counts_prior` makes M-steps of models with a
    prior from statistics of all rows, and one that `serves_noise` learns mixtures with noise.
    Initial parameters are the best of `starts` candidates, drawn from about `sample_size` rows.

    What only some learners have, such as `merge`, is a capability: see
    `core/learner_capabilities.py`. `merge` flushes states that hold buffered rows; functions for it
    are in `learners/_merging.py`.
    """

    # fields that name files, which are not saved in model files
    places: ClassVar[tuple[str, ...]] = ()
    starts = 1
    sample_size = 20_000
    rereads = False
    supports_warm_start = False
    exchangeable = True
    adds_levels = True
    counts_prior = True
    serves_noise = False

    def default_initializer(self, family: Family) -> str | None:
        """The name of the learner's default initializer; None for that of the family."""
        return None

    def can_continue_from(self, other: Learner) -> bool:
        """Whether the learner can continue from a state of the learner `other`."""
        return self.supports_warm_start and isinstance(other, type(self))

    def release(self, state: StateT) -> None:
        """Close the files that a state uses; learning can continue from it."""
        return

    def why_unsupported(self, model: Model) -> str | None:
        """Why the learner does not support the model, and which one does; None if it does."""
        return None

    def serves(self, model: Model) -> bool:
        """Whether the learner supports the model."""
        return self.why_unsupported(model) is None

    def warnings(self, model: Model, rows: Rows) -> list[str]:
        """Warnings to issue before learning; `rows` are a sample of the data."""
        return []

    def bounded(self, family: Family) -> Family:
        """The family, with the bounds that the learner puts on its parameters."""
        return family

    def resolve(self, n: int | None, d: int, streaming: bool) -> Learner:
        """The learner with all settings resolved, given the number of rows if it is known."""
        return self

    def order(self, random_access: bool) -> Order:
        """The order in which rows are drawn from the source."""
        return "stream"

    def prior_count(self, sample: int, k: int, d: int) -> int:
        """How many rows the initial parameters count for, if drawn from `sample` rows."""
        return 0

    def rows_to_sample(self, k: int, d: int) -> int:
        """The number of rows from which the initial parameters of K components are drawn."""
        return max(self.sample_size, k)

    @abstractmethod
    def init(self, backend: Backend, params: Params, seen: int = 0, seed: int = 0) -> StateT:
        """The initial state; `params` count for `seen` rows."""

    def init_after_fit(
        self, backend: Backend, params: Params, rows: int, weight: float, seed: int = 0
    ) -> StateT:
        """The initial state for rows after a fit of `rows` rows, which resulted in `params`."""
        return self.init(backend, params, rows, seed)

    def weight_learned(self, state: StateT, rows: int) -> float:
        """The total weight of the `rows` rows that the state was learned from, counted once."""
        return float(rows)

    @abstractmethod
    def step(self, backend: Backend, state: StateT, rows: Rows) -> tuple[StateT, list[Info]]:
        """Update the state with rows."""

    @abstractmethod
    def end_pass(self, backend: Backend, state: StateT) -> tuple[StateT, list[Info]]:
        """Update the state at the end of a pass."""

    def run_passes(
        self, backend: Backend, state: StateT, rows: Rows, most: int | None
    ) -> tuple[StateT, list[Info]] | None:
        """Make several passes over all rows at once; None if the next pass must be a single one."""
        return None

    def flushed(self, backend: Backend, state: StateT) -> StateT:
        """The state after an update with its buffered rows, so that it holds none."""
        return state

    def flush(self, backend: Backend, state: StateT) -> tuple[StateT, list[Info]]:
        """The result of `flushed`, and the log-likelihood of the buffered rows."""
        return self.flushed(backend, state), []

    def is_reduction(self, state: StateT) -> bool:
        """Whether a pass only sums statistics, so that partitions can be processed separately."""
        return False

    def branch(self, model: Model, state: StateT, number: int, of: int) -> StateT:
        """The initial state of worker `number`, with its own random numbers."""
        return state

    @abstractmethod
    def finished(self, state: StateT) -> bool:
        """Whether no further pass is needed."""

    def converged(self, state: StateT) -> bool:
        """Whether learning has converged; true for learners without a criterion."""
        return True

    def check_state(self, model: Model, state: StateT) -> None:
        """Raise an error for a state that is not valid for the model."""
        if not is_value(state):
            raise InvalidInputError(f"the state is a {type(state).__name__}: a value is needed")
        model.check_params(state.params)
        check_count("n_degenerate", state.n_degenerate)

    def compact(self, state: StateT) -> StateT:
        """The state without the parts that only another pass would need."""
        return state

    def estimate(self, backend: Backend, state: StateT) -> Any:
        """The estimated parameters; they can differ from those being trained."""
        return state.params
