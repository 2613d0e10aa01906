"""E-steps on a GPU, or on another device of torch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, ClassVar, TypeVar

import numpy as np

from mixfold.backends._devices import SHARE_OF_MEMORY, device_called, free_memory
from mixfold.backends._feeding import Feed, resident
from mixfold.backends.threads import Threads
from mixfold.core.arrays import concatenated, is_tensor, on_host, to_device_of
from mixfold.core.backend import EXPECTED, Assignment, RowOptions
from mixfold.core.backend_capabilities import (
    Annealer,
    MomentMatcher,
    Passes,
    RowUpdater,
    required,
    row_updater,
)
from mixfold.core.noise import uniforms
from mixfold.core.rows import Array, Rows, rows_at_a_time, stretches
from mixfold.core.source import Source, WholeArray
from mixfold.kernels.gpu import GpuKernel
from mixfold.kernels.optional_torch import Tensor, torch
from mixfold.sources.tensor import Tensor as TensorSource

C = TypeVar("C")
T = TypeVar("T")

MOST_ROWS = 2**17
TILE_ELEMENTS = 2**25
BLOCK_ELEMENTS = 2**25
PIECE_ELEMENTS = 2**31
MOST_FAILURES = 3
FEW_SUMS = 2**26  # numbers that are added up in some milliseconds


def device_tile(d: int) -> int:
    """Rows per tile: depends on d alone, so that sums do not depend on the device."""
    return min(MOST_ROWS, int(2 ** (max(1, TILE_ELEMENTS // d).bit_length() - 1)))


class Gpu:
    """A model bound to a torch device; updates of single rows are computed by the CPU backend.

    Rows may be tensors on the device, which are processed many tiles at once, or arrays, which are
    sent a few tiles at a time. Sums of tiles are added in the order of the rows.
    """

    served: ClassVar[str] = "'gpu', or a GPU of torch such as 'cuda:1'"

    def __init__(self, model: Any, device: Any = "cuda", n_threads: int | None = None) -> None:
        self.model = model
        self.cpu = Threads(model, n_threads)
        self.device = torch().device(device)
        self.on_device = GpuKernel(self.model, self.device)
        self.tile = device_tile(model.d)
        self.sent: int = self.tile * max(1, BLOCK_ELEMENTS // (self.tile * model.d))
        self.piece = self.tile * max(1, PIECE_ELEMENTS // (self.tile * model.d))
        self._feed: Feed | None = None
        self._there: tuple[Any, Any] = (None, None)
        self._passes: tuple[Any, Any] | None = None
        self._failures = 0

    def with_model(self, model: Any) -> Gpu:
        """Another model on the same device."""
        return Gpu(model, self.device, self.cpu.n_threads)

    @classmethod
    def device_named(cls, engine: str) -> Any:
        """The device that a name stands for: gpu, cuda:1, torch:cpu; None for other names."""
        return device_called(engine)

    @classmethod
    def device_of(cls, data: Any) -> Any:
        """The GPU that holds the data; None if they are elsewhere."""
        return data.device if is_tensor(data) and data.device.type == "cuda" else None

    @classmethod
    def on(cls, model: Any, device: Any, n_threads: int | None) -> Gpu:
        """A model bound to a device of this backend."""
        return cls(model, device, n_threads)

    def block_length(self, source: Source) -> int:
        """The number of rows that are sent at a time."""
        return self.sent

    def capability(self, kind: type[C]) -> C | None:
        """The backend itself; it delegates to the CPU what the device cannot compute."""
        return self if isinstance(self, kind) else None

    # expectations

    def fold(
        self, params: Any, rows: Rows, sums: Array, assignment: Assignment = EXPECTED
    ) -> Array:
        """Add the sums of rows, tile by tile."""
        return self._sparing(lambda: self._folded(params, rows, sums, assignment))

    def _folded(self, params: Any, rows: Rows, sums: Array, assignment: Assignment) -> Array:
        prepared, first = self._upload(params), assignment.first
        found: list[Tensor] = []
        for piece in self._pieces(rows):
            found.append(self._tiles(prepared, piece, assignment, first))
            first += len(piece)
        return added(sums, found)

    def _tiles(self, prepared: Any, rows: Rows, assignment: Assignment, first: int) -> Tensor:
        """Sums of tiles of rows, the first of which has that number."""
        x, weight = rows.x, rows.weight
        if assignment.kind == "expected":
            return self.on_device.sums(prepared, x, weight, self.tile)
        log_density, responsibilities = self.on_device.posterior(prepared, x)
        if assignment.kind == "mode":
            expectations = one_hot(responsibilities.argmax(dim=1), self.model.k)
        else:
            expectations = drawn(
                responsibilities, uniforms(assignment.seed, first, len(rows), assignment.draws)
            )
        sums = self.on_device.moments(prepared, x, weight, expectations, self.tile)
        log_density = log_density if weight is None else log_density * weight
        for total, cut in zip(sums, stretches(len(rows), self.tile), strict=True):
            total[0] = log_density[cut].clone().sum()
        return sums

    def moments(self, params: Any, rows: Rows, expectations: Array, sums: Array) -> Array:
        """Add the sums of rows under given expectations, tile by tile, without likelihood."""

        def work() -> Array:
            prepared, first = self._upload(params), 0
            found: list[Tensor] = []
            for some in self._pieces(rows):
                given = to_device_of(some.x, expectations[first : first + len(some)])
                tiles = self.on_device.moments(prepared, some.x, some.weight, given, self.tile)
                found.append(tiles)
                first += len(some)
            return added(sums, found)

        return self._sparing(work)

    def posterior(
        self, params: Any, rows: Rows, expectations: bool = True
    ) -> tuple[Array, Array | None]:
        """log p(x) of every row and, if wanted, its expectations; in this machine's memory."""
        parts = [
            self.densities(params, some, expectations) for some in rows_at_a_time(rows, self.sent)
        ]
        responsibilities = [on_host(part[1]) for part in parts if part[1] is not None]
        log_density = np.concatenate([on_host(part[0]) for part in parts])
        return log_density, np.concatenate(responsibilities) if expectations else None

    def densities(
        self, params: Any, rows: Rows, expectations: bool
    ) -> tuple[Tensor, Tensor | None]:
        """The same as `posterior`, as tensors on the device."""

        def work() -> tuple[Tensor, Tensor | None]:
            prepared = self._upload(params)
            parts = [
                self.on_device.posterior(prepared, p.x, expectations) for p in self._pieces(rows)
            ]
            log_density = concatenated([part[0] for part in parts])
            return log_density, concatenated([p[1] for p in parts]) if expectations else None

        return self._sparing(work)

    def anneal(
        self, state: Any, rows: Rows, options: Any, batch_size: int
    ) -> tuple[Any, float, float]:
        """Take gradient steps, batch by batch; return sums of log densities and of the bound."""
        if batch_size == 1 or state.roots.ndim == 3:
            return required(self.cpu, Annealer).anneal(state, rows.on_host(), options, batch_size)
        log_density = bound = 0.0
        step = batch_size * max(1, self.tile // batch_size)
        for some in self._pieces(rows, step):
            state, *more = self.on_device.anneal(state, some.x, some.weight, options, batch_size)
            log_density, bound = log_density + more[0], bound + more[1]
        return state, log_density, bound

    def run_passes(self, params: Any, rows: Rows) -> Passes | None:
        """Several passes of EM over rows on the device.

        Returns None if the rows are elsewhere, or if previous calls failed repeatedly.
        """
        if isinstance(rows.x, np.ndarray) or self._failures >= MOST_FAILURES:
            return None
        try:
            if self._passes is None or self._passes[0] is not rows.x:
                made = self.on_device.iterations(rows.x, rows.weight, self.tile)
                self._passes = rows.x, made
            passes = self._passes[1]
            if passes is None:
                return None
            found: Passes = passes.run(params, lambda: self._narrow(params))
        except torch().OutOfMemoryError:
            self.forget()
            self._failures = MOST_FAILURES
            return None
        self._failures = 0 if len(found.log_likelihood) else self._failures + 1
        return found

    def _narrow(self, params: Any) -> Any:
        """Parameters on the device, if float32 can hold them."""
        there = self._upload(params)
        return None if there.fused is None else there.form

    def for_host_rows(self, n: int) -> Any:
        """The processor where its sums take less time than sending rows and reading results."""
        return self.cpu if n * self.model.n_sums <= FEW_SUMS else self

    def forget(self) -> None:
        """Free the rows and buffers on the device."""
        self._passes, self._there, self._feed = None, (None, None), None
        self.on_device.forget()

    # computed by the CPU

    def match(self, posterior: Any, rows: Rows) -> tuple[Any, float, int]:
        """The posterior after rows, their predictive log density, and degenerate components."""
        return required(self.cpu, MomentMatcher).match(posterior, rows.on_host())

    def row_updater(self, statistics: Any, params: Any, reference: Any = None) -> RowUpdater | None:
        """A working copy for one update per row, where the CPU has one."""
        found = row_updater(self.cpu, statistics, params, reference)
        return None if found is None else HostRowUpdater(found)

    # memory

    def run_resident(self, work: Callable[[Source], T], source: Source) -> T:
        """Call `work` with rows that are kept on the device or, if memory is short, sent there."""
        placed = self._resident(source)
        if placed is None:
            return work(source)
        try:
            return work(placed)
        except torch().OutOfMemoryError:
            say_short_of_memory(self.device)
        del placed
        self.forget()
        return work(source)

    def _resident(self, source: Source) -> TensorSource | None:
        """The rows of an array that fits on the device, as a tensor there; None for other data."""
        if not isinstance(source, WholeArray) or source.length is None:
            return None
        size = source.length * source.d * source.dtype.itemsize
        if size > SHARE_OF_MEMORY * free_memory(self.device):
            return None
        try:
            rows = source.whole()
            how = self.device, self.sent, self.cpu.n_threads
            weight = None if rows.weight is None else resident(rows.weight, *how)
            placed = TensorSource(resident(rows.x, *how), weight)
        except torch().OutOfMemoryError:
            say_short_of_memory(self.device)
            return None
        placed.columns = source.columns
        return placed

    def _upload(self, params: Any) -> Any:
        """Parameters on the device, kept for the next call with the same ones."""
        known, prepared = self._there
        if params is not known:
            prepared = self.on_device.prepare(params)
            self._there = params, prepared
        return prepared

    def _pieces(self, rows: Rows, length: int | None = None) -> Iterator[Rows]:
        """Iterate over rows on the device, whole tiles or `length` rows at a time."""
        if not isinstance(rows.x, np.ndarray):
            return rows_at_a_time(rows, length or self.piece)
        if self._feed is None:
            self._feed = Feed(self.device, self.cpu.n_threads)
        return self._feed.pieces(rows, length or self.sent)

    def _sparing(self, work: Callable[[], T]) -> T:
        """Call `work`; if the device runs out of memory, call it again with smaller pieces."""
        try:
            return work()
        except torch().OutOfMemoryError:
            if self.piece == self.sent == self.tile:
                raise
            self.piece = self.sent = self.tile
            self._feed = None
        say_short_of_memory(self.device)
        return work()


@cache
def say_short_of_memory(device: Any) -> None:
    """Warn once that the device has too little memory."""
    warnings.warn(
        f"{device} has too little memory free for all rows at once: they are sent in pieces, "
        "which is slower",
        RuntimeWarning,
        stacklevel=4,
    )


def added(sums: Array, tiles: list[Tensor]) -> Array:
    """Add the sums of tiles to `sums`, in order."""
    for several in tiles:
        for one in on_host(several):
            sums = sums + one
    return sums


def one_hot(labels: Tensor, k: int) -> Tensor:
    """Responsibilities (n, K) with all on one label."""
    return torch().nn.functional.one_hot(labels, k).double()


def drawn(responsibilities: Tensor, noise: Array) -> Tensor:
    """The mean of draws of a label for each row, one for each column of uniform numbers."""
    reach, whole = responsibilities.cumsum(dim=1), responsibilities.sum(dim=1, keepdim=True)
    levels = (level[:, None] * whole for level in to_device_of(responsibilities, noise).T)
    labels = ((reach > level).to(torch().uint8).argmax(dim=1) for level in levels)
    return sum(one_hot(label, responsibilities.shape[1]) for label in labels) / noise.shape[1]


class HostRowUpdater:
    """A row updater of the CPU, to which rows are copied from the device."""

    def __init__(self, updater: RowUpdater) -> None:
        self._updater = updater

    def fold(
        self,
        rows: Rows,
        gamma: Array,
        hold: int,
        options: RowOptions,
        old: Array | None = None,
        log_likelihood: float = 0.0,
    ) -> tuple[float, int, Array | None]:
        """Learn rows in order; see `NativeRowUpdater`."""
        return self._updater.fold(rows.on_host(), gamma, hold, options, old, log_likelihood)

    @property
    def rows(self) -> int:
        """Rows learned so far."""
        return self._updater.rows

    @property
    def n_degenerate(self) -> int:
        """Degenerate components so far."""
        return self._updater.n_degenerate

    def draw_from(self, seed: int, first: int) -> None:
        """Set the seed and the number of the next row, which determine its random numbers."""
        self._updater.draw_from(seed, first)

    def evaluate(self, x: Array, responsibilities: bool) -> tuple[Array, Array | None]:
        """log p of every row under the parameters as of now and, if wanted, responsibilities."""
        return self._updater.evaluate(x, responsibilities)

    def state(self) -> tuple[Any, Any]:
        """The statistics and parameters as of now."""
        return self._updater.state()
