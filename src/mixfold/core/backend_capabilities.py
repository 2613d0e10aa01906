"""What only some backends, kernels and learners can do, as small protocols.

A learner asks its backend for a capability by the protocol, `problem.capability(Annealer)`, and
gets the object that has it, or None. What a learner can do is found with `isinstance`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from mixfold.core.arrays import Tensor
from mixfold.core.backend import Backend, RowOptions
from mixfold.core.capability import Capability
from mixfold.core.errors import InvalidInputError
from mixfold.core.params import AnnealedT, Params, PosteriorT, Rule_contra, StateT
from mixfold.core.rows import Array, Rows
from mixfold.core.statistics import Additive

C = TypeVar("C")


@runtime_checkable
class MomentMatcher(Capability, Protocol[PosteriorT]):
    """Bayesian moment matching, row by row."""

    def match(self, posterior: PosteriorT, rows: Rows) -> tuple[PosteriorT, float, int]:
        """The posterior after rows, their predictive log density, and degenerate components."""
        ...


@runtime_checkable
class Annealer(Capability, Protocol[AnnealedT, Rule_contra]):
    """Stochastic gradients of the annealed bound."""

    def anneal(
        self, state: AnnealedT, rows: Rows, options: Rule_contra, batch_size: int
    ) -> tuple[AnnealedT, float, float]:
        """The state after all batches, and sums of log densities and of the bound."""
        ...


class Passes(NamedTuple):
    """Passes of EM made at once: mean log-likelihoods before each, and parameters after each."""

    log_likelihood: Array
    after: Callable[[int], Any]


@runtime_checkable
class FusedPasses(Capability, Protocol):
    """Several passes of EM over rows that lie where they are computed with."""

    def run_passes(self, params: Params, rows: Rows) -> Passes | None:
        """The passes made; None where they can only be made one by one."""
        ...


class RowUpdater(Protocol):
    """A working copy of statistics and parameters for one update per row."""

    def fold(
        self,
        rows: Rows,
        gamma: Array,
        hold: int,
        options: RowOptions,
        old: Array | None = None,
        log_likelihood: float = 0.0,
    ) -> tuple[float, int, Array | None]: ...
    @property
    def rows(self) -> int: ...
    @property
    def n_degenerate(self) -> int: ...
    def draw_from(self, seed: int, first: int) -> None: ...
    def state(self) -> tuple[Additive, Params]: ...


@runtime_checkable
class RowUpdates(Capability, Protocol):
    """One update per row without a call for each."""

    def row_updater(
        self, statistics: Additive, params: Params, reference: Additive | None = None
    ) -> RowUpdater | None:
        """A working copy; `reference` steers its statistics. None where there is none."""
        ...


@runtime_checkable
class DeviceDensities(Capability, Protocol):
    """Densities that stay where they are computed; `sent` is how many rows are best at a time."""

    sent: int

    def densities(
        self, params: Params, rows: Rows, expectations: bool
    ) -> tuple[Tensor, Tensor | None]:
        """What `posterior` returns, as tensors of the device."""
        ...


@runtime_checkable
class Mergeable(Capability, Protocol[StateT]):
    """A learner whose states can be joined."""

    def merge(self, backend: Backend, before: StateT, states: Sequence[StateT]) -> StateT:
        """The state in place of several, each learned from rows of its own since `before`.

        It does not depend on the order of the states, and can be merged again.
        """
        ...


@runtime_checkable
class WatchesDrift(Capability, Protocol[StateT]):
    """A learner that watches the likelihood of windows of rows, which another one learns."""

    learner: Any
    window: int

    def watched(self, backend: Backend, state: StateT, inner: Any, rows: Rows) -> StateT:
        """The state after rows of a window, from which `inner` is the inner state."""
        ...

    def drifts(self, state: StateT) -> list[int]:
        """Numbers of the rows at which the inner learner was restarted."""
        ...


def required(backend: Backend, kind: type[C]) -> C:
    """A capability without which a learner cannot work."""
    found = backend.capability(kind)
    if found is None:
        raise InvalidInputError(
            f"{type(backend).__name__} has no {kind.__name__} for {backend.model!r}: use another "
            "learner"
        )
    return found


def row_updater(
    backend: Backend, statistics: Additive, params: Params, reference: Additive | None = None
) -> RowUpdater | None:
    """A working copy for one update per row, where the backend has one."""
    updates = backend.capability(RowUpdates)
    return None if updates is None else updates.row_updater(statistics, params, reference)
