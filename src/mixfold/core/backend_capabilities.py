"""Protocols that only some backends and kernels implement.

A learner asks its backend for a capability, `backend.capability(Annealer)`, and gets the object
that implements it, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

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


@runtime_checkable
class DelegatesFewRows(Capability, Protocol):
    """A device on which passes over few rows take longer than on the processor."""

    def for_host_rows(self, n: int) -> Any:
        """The backend, with the same model, for passes over so many rows in the host's memory."""
        ...


def for_host_rows(backend: Backend[Any], n: int) -> Backend[Any]:
    """The backend that makes passes over so many rows in the host's memory sooner."""
    found = backend.capability(DelegatesFewRows)
    return backend if found is None else found.for_host_rows(n)


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


class ComponentLists(NamedTuple):
    """Where the components of highest density are searched: see `kernels/candidates.py`.

    Every component is a member of a list: those of list i are `members[offsets[i] : offsets[i +
    1]]`. The `neighbours` of each component are (K, G), -1 where there are fewer.
    """

    offsets: NDArray[np.int32]
    members: NDArray[np.int32]
    neighbours: NDArray[np.int32]


class Candidates(Protocol):
    """A mixture under some parameters, of which only a few components are evaluated for a row.

    `values` are the rows in the coordinates in which densities are evaluated, and `centres` the
    means of components in them. Densities leave out `log_base_measure`. If it is `sequential`,
    results do not depend on the blocks. `known` may hold what was computed from it.
    """

    known: Any
    sequential: bool

    @property
    def nbytes(self) -> int:
        """Bytes of the parameters of all components."""
        ...

    @property
    def centres(self) -> Array: ...
    def values(self, x: NDArray[np.floating]) -> NDArray[np.floating]: ...
    def log_base_measure(self, x: NDArray[np.floating]) -> Array | float: ...
    def search(
        self,
        values: NDArray[np.floating],
        start: NDArray[np.int32],
        listed: NDArray[np.int32],
        lists: ComponentLists,
        kept: int,
        steps: int,
    ) -> tuple[NDArray[np.int32], Array]:
        """The components of highest joint density that are found, and the logarithms of it.

        Rows begin at the components in `start` (n, s) and the members of the lists in `listed`.
        """
        ...

    def distances(self, centres: Array, scale: Array) -> Candidates:
        """Centres in the coordinates of `values`, with minus half the squared scaled distance."""
        ...

    def add(
        self,
        values: NDArray[np.floating],
        by_component: Any,
        table: Array,
        first: int,
        last: int,
    ) -> None:
        """Add rows to the sums of components first .. last - 1, row after row, in place.

        `by_component` holds their responsibilities as a sparse matrix in columns.
        """
        ...


@runtime_checkable
class CandidateKernel(Capability, Protocol):
    """E-steps in which a row belongs to a few components."""

    def candidates(self, params: Any) -> Candidates | None:
        """The mixture under these parameters; None if the family has no such form."""
        ...


@runtime_checkable
class PartMapper(Capability, Protocol):
    """A backend with threads, among which any work can be divided."""

    def map(self, work: Any, parts: list[Any]) -> Iterable[Any]:
        """Apply `work` to every part; results are in order."""
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
