"""E-steps on the cores of this machine."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import chain, pairwise
from typing import Any, ClassVar, TypeVar

import numpy as np

from mixfold.core.backend import EXPECTED, Assignment, Model
from mixfold.core.rows import Array, Rows
from mixfold.core.source import Source
from mixfold.core.value import replace
from mixfold.kernels.choice import MOST_ELEMENTS, Kernel, kernel_for, tile_length

C = TypeVar("C")
T = TypeVar("T")

PIECES_PER_TILE = 8
SHORT_SECONDS = 3e-4  # seconds of work below which starting other threads takes longer


@cache
def pool(n_threads: int) -> ThreadPoolExecutor:
    """The thread pool, which is kept between fits; a forked process makes its own."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix="mixfold")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.cache_clear)


def available_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _added(sums: Array, parts: Iterable[Array]) -> Array:
    """Add the sums of parts to `sums`, in order."""
    total = sums.copy()
    for part in parts:
        total += part
    return total


def _next(left: deque[int]) -> int | None:
    """The next item, which no other thread gets; None when there are no more."""
    try:
        return left.popleft()
    except IndexError:
        return None


class Threads:
    """A model bound to a thread pool; partial sums are added in the order of the rows."""

    served: ClassVar[str] = "'cpu'"

    def __init__(
        self, model: Model, n_threads: int | None = None, kernel: Kernel | None = None
    ) -> None:
        self.model: Any = model
        self.kernel = kernel or kernel_for(model)
        self.tile = tile_length(model.d)
        self.n_threads = available_cores() if n_threads is None else n_threads
        self._prepared: tuple[Any, Any] = (None, None)
        self._most_tiles = max(1, MOST_ELEMENTS // model.n_sums)
        self._seconds_per_row = np.inf

    def with_model(self, model: Model) -> Threads:
        """Another model on as many threads."""
        return Threads(model, self.n_threads)

    @classmethod
    def device_named(cls, engine: str) -> str | None:
        """The device with this name; None if the name belongs to another backend."""
        return engine if engine == "cpu" else None

    @classmethod
    def device_of(cls, data: Any) -> str | None:
        """None: no data require this backend, which is the default."""
        return None

    @classmethod
    def on(cls, model: Model, device: Any, n_threads: int | None) -> Threads:
        """A model bound to a device of this backend."""
        return cls(model, n_threads)

    def block_length(self, source: Source) -> int | None:
        """None: the source determines the number of rows."""
        return None

    def map(self, work: Any, parts: list[Any]) -> Iterable[Any]:
        """Apply `work` to every part; results are in order."""
        if self.n_threads == 1 or len(parts) <= 1:
            return (work(part) for part in parts)
        rounds = -(-len(parts) // max(self.n_threads, self._most_tiles))
        ends = [len(parts) * i // rounds for i in range(rounds + 1)]
        some = (self._share_out(work, parts[a:b]) for a, b in pairwise(ends))
        return chain.from_iterable(some)

    def _share_out(self, work: Any, parts: list[Any]) -> list[Any]:
        """Apply `work` to parts: every thread takes the next one until none is left.

        The calling thread is one of them and begins at once, while others may have to be started.
        """
        left, found = deque(range(len(parts))), [None] * len(parts)

        def take() -> None:
            try:
                while (i := _next(left)) is not None:
                    found[i] = work(parts[i])
            finally:
                left.clear()  # after an error the other threads stop too

        threads = min(self.n_threads, len(parts)) - 1
        others = [pool(self.n_threads).submit(take) for _ in range(threads)]
        take()
        for other in others:
            if not other.cancel():  # which succeeds if the thread has not begun
                other.result()
        return found

    def _map_rows(self, work: Callable[[slice], T], n: int) -> Iterable[T]:
        """Apply `work` to the tiles of n rows, in the calling thread if it takes little time.

        The time per row is known from the last call. It decides which threads compute; the result
        does not depend on it.
        """
        cuts = self._cuts(n) or [slice(0)]
        if self.n_threads == 1 or len(cuts) == 1:
            return (work(cut) for cut in cuts)
        began, threads = time.perf_counter(), min(self.n_threads, len(cuts))
        if n * self._seconds_per_row < SHORT_SECONDS:
            threads, found = 1, [work(cut) for cut in cuts]
        elif len(cuts) > self._most_tiles:
            return self.map(work, cuts)
        else:
            found = self._share_out(work, cuts)
        self._seconds_per_row = threads * (time.perf_counter() - began) / n
        return found

    def _prepare(self, params: Any) -> Any:
        """The prepared parameters of the kernel, cached for the next call with the same ones."""
        known, prepared = self._prepared
        if params is not known:
            prepared = self.kernel.prepare(params)
            self._prepared = params, prepared
        return prepared

    def _cuts(self, n: int) -> list[slice]:
        """Tiles of n rows; a last part that fills no tile is divided by its length alone."""
        whole = n // self.tile * self.tile
        pieces = -(-(n - whole) * PIECES_PER_TILE // self.tile)
        ends = [whole + (n - whole) * i // pieces for i in range(1, pieces + 1)]
        starts = [*range(0, whole, self.tile), whole, *ends]
        return [slice(a, b) for a, b in pairwise(starts)]

    def fold(
        self, params: Any, rows: Rows, sums: Array, assignment: Assignment = EXPECTED
    ) -> Array:
        """Add the sums of rows, tile by tile."""
        prepared, expect = self._prepare(params), self.kernel.expect

        def work(cut: slice) -> Array:
            some = rows.cut(cut.start, cut.stop)
            if assignment.kind == "expected":
                return expect(prepared, some)
            there = replace(assignment, first=assignment.first + cut.start)
            return self._assigned(prepared, some, there)

        return _added(sums, self._map_rows(work, len(rows)))

    def _assigned(self, prepared: Any, rows: Rows, assignment: Assignment) -> Array:
        """The sums of rows whose responsibilities are a mode or random draws."""
        if assignment.kind == "mode":
            log_density, expectations = self.kernel.posterior(prepared, rows.x)
            assert expectations is not None
            expectations = self.model.mode(expectations)
        else:
            log_density, expectations = self.kernel.simulate(prepared, rows, assignment)
        sums = self.kernel.moments(prepared, rows, expectations)
        sums[0] = rows.weights() @ log_density
        return sums

    def moments(self, params: Any, rows: Rows, expectations: Array, sums: Array) -> Array:
        """Add the sums of rows under given expectations, tile by tile, without likelihood."""
        prepared = self._prepare(params)

        def work(cut: slice) -> Array:
            return self.kernel.moments(prepared, rows.cut(cut.start, cut.stop), expectations[cut])

        return _added(sums, self._map_rows(work, len(rows)))

    def posterior(
        self, params: Any, rows: Rows, expectations: bool = True
    ) -> tuple[Array, Array | None]:
        """log p(x) of every row and, if wanted, its expectations."""
        prepared = self._prepare(params)

        def work(cut: slice) -> tuple[Array, Array | None]:
            return self.kernel.posterior(prepared, rows.x[cut], expectations)

        parts = list(self._map_rows(work, len(rows)))
        log_density = np.concatenate([p[0] for p in parts])
        parts_expected = [p[1] for p in parts if p[1] is not None]
        return log_density, np.concatenate(parts_expected) if expectations else None

    def capability(self, kind: type[C]) -> C | None:
        """The kernel, or the backend itself, where it offers the protocol."""
        if isinstance(self.kernel, kind):
            return self.kernel
        return self if isinstance(self, kind) else None

    def run_resident(self, work: Callable[[Source], T], source: Source) -> T:
        """Call `work` with the source."""
        return work(source)

    def forget(self) -> None:
        """Free the cached parameters."""
        self._prepared = None, None
