"""Protocols that only some backends and kernels implement.

A learner asks its backend for a capability, `backend.capability(Annealer)`, and gets the object
that implements it, or None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from mixfold.core.arrays import Tensor
from mixfold.core.backend import Backend, RowOptions
from mixfold.core.capability import Capability
from mixfold.core.errors import InvalidInputError
from mixfold.core.params import AnnealedT, Params, PosteriorT, Rule_contra
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
    """The result of several EM passes: log-likelihoods before, and parameters after, each pass."""

    log_likelihood: Array
    after: Callable[[int], Any]


@runtime_checkable
class FusedPasses(Capability, Protocol):
    """Several passes of EM over rows on the device, without a return to Python."""

    def run_passes(self, params: Params, rows: Rows) -> Passes | None:
        """The result of the passes; None if passes can only be made one by one."""
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
    def evaluate(self, x: Array, responsibilities: bool) -> tuple[Array, Array | None]: ...
    def state(self) -> tuple[Additive, Params]: ...


@runtime_checkable
class RowUpdates(Capability, Protocol):
    """Updates after every row, without a Python call for each."""

    def row_updater(
        self, statistics: Additive, params: Params, reference: Additive | None = None
    ) -> RowUpdater | None:
        """A row updater, or None; `reference` is the mean of the control variate."""
        ...


@runtime_checkable
class CompleteRowUpdates(Capability, Protocol):
    """Updates after every row without missing cells; the other rows need the learner's own."""

    def complete_row_updater(self, statistics: Additive, params: Params) -> RowUpdater | None:
        """A row updater for complete rows, or None."""
        ...


@runtime_checkable
class DeviceDensities(Capability, Protocol):
    """Densities as tensors on the device; `sent` is the preferred number of rows per call."""

    sent: int

    def densities(
        self, params: Params, rows: Rows, expectations: bool
    ) -> tuple[Tensor, Tensor | None]:
        """The same as `posterior`, as tensors on the device."""
        ...


def required(backend: Backend, kind: type[C]) -> C:
    """The capability, which the learner requires; an error if the backend lacks it."""
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
    """A row updater of the backend, or None."""
    updates = backend.capability(RowUpdates)
    return None if updates is None else updates.row_updater(statistics, params, reference)
