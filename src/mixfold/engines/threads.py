"""E-steps on the cores of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any

import numpy as np

from mixfold.core.problem import EXPECTED, Assignment, Model, Sequence
from mixfold.core.rows import Array, Rows
from mixfold.kernels.choice import Kernel, kernel_for, tile_length

TASKS_PER_THREAD = 4


@cache
def pool(n_threads: int) -> ThreadPoolExecutor:
    """Threads that outlive a fit; a forked child makes its own."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix="mixfold")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.cache_clear)


def available_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Threads:
    """A model bound to a thread pool; partial sums are added in the order of the rows."""

    def __init__(
        self, model: Model, n_threads: int | None = None, kernel: Kernel | None = None
    ) -> None:
        self.model: Any = model
        self.kernel = kernel or kernel_for(model)
        self.tile = tile_length(model.d)
        self.n_threads = available_cores() if n_threads is None else n_threads

    def _map(self, work: Any, parts: list[Any]) -> Iterable[Any]:
        if self.n_threads == 1 or len(parts) == 1:
            return map(work, parts)
        # a few tiles per task: handing over a task costs as much as a thousand rows
        size = -(-len(parts) // (TASKS_PER_THREAD * self.n_threads))
        groups = (parts[i : i + size] for i in range(0, len(parts), size))
        done = pool(self.n_threads).map(lambda group: [work(part) for part in group], groups)
        return chain.from_iterable(done)

    def _tiles(self, rows: Rows) -> list[Rows]:
        return [rows.cut(i, i + self.tile) for i in range(0, len(rows), self.tile)]

    def fold(
        self, params: Any, rows: Rows, sums: Array, assignment: Assignment = EXPECTED
    ) -> Array:
        """Add the sums of rows, tile by tile."""
        prepared = self.kernel.prepare(params)
        firsts = range(assignment.first, assignment.first + len(rows), self.tile)
        parts = list(zip(self._tiles(rows), firsts, strict=True))

        def work(part: tuple[Rows, int]) -> Array:
            return self._expect(prepared, part[0], replace(assignment, first=part[1]))

        for partial in self._map(work, parts):
            sums = sums + partial
        return sums

    def _expect(self, prepared: Any, rows: Rows, assignment: Assignment) -> Array:
        if assignment.rule == "expected":
            return self.kernel.expect(prepared, rows)
        if assignment.rule == "mode":
            log_density, latent = self.kernel.posterior(prepared, rows.x)
            assert latent is not None
            latent = self.model.mode(latent)
        else:
            log_density, latent = self.kernel.simulate(prepared, rows, assignment)
        sums = self.kernel.moments(prepared, rows, latent)
        sums[0] = rows.weights() @ log_density
        return sums

    def moments(self, params: Any, rows: Rows, latent: Array, sums: Array) -> Array:
        """Add the sums of rows under given latent vectors, tile by tile, without likelihood."""
        prepared = self.kernel.prepare(params)
        shares = [latent[i : i + self.tile] for i in range(0, len(rows), self.tile)]
        parts = list(zip(self._tiles(rows), shares, strict=True))
        for partial in self._map(lambda part: self.kernel.moments(prepared, *part), parts):
            sums = sums + partial
        return sums

    def posterior(self, params: Any, rows: Rows, latent: bool = True) -> tuple[Array, Array | None]:
        """log p(x) of every row and, if wanted, its latent vector."""
        prepared = self.kernel.prepare(params)

        def work(part: Rows) -> tuple[Array, Array | None]:
            return self.kernel.posterior(prepared, part.x, latent)

        parts = list(self._map(work, self._tiles(rows) or [rows]))
        log_density = np.concatenate([p[0] for p in parts])
        shares = [p[1] for p in parts if p[1] is not None]
        return log_density, np.concatenate(shares) if latent else None

    def sequence(self, statistics: Any, params: Any, reference: Any = None) -> Sequence | None:
        """A working copy for one update per row, where the kernel has one."""
        return self.kernel.sequence(statistics, params, reference)
