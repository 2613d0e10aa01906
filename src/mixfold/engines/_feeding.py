"""Rows on their way to a device: a copy runs while the one before is computed with."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from mixfold.core.rows import Array, Rows
from mixfold.engines.threads import available_cores, pool
from mixfold.kernels._torch import Tensor, torch

SLOTS = 2
PART_BYTES = 2**20
MOST_PARTS = 16


def fill(to: np.ndarray, x: np.ndarray, n_threads: int) -> None:
    """Copy rows; one thread is several times slower than the way to the device."""
    parts = min(n_threads, MOST_PARTS, x.nbytes // PART_BYTES)
    if parts < 2:
        to[:] = x
        return
    ends = [len(x) * i // parts for i in range(parts + 1)]
    cuts = [slice(*pair) for pair in pairwise(ends)]
    list(pool(n_threads).map(lambda cut: np.copyto(to[cut], x[cut]), cuts))


class Slot:
    """A pinned buffer, its twin on the device, and the moments from which each is free again."""

    def __init__(self, device: Any, shape: tuple[int, ...], dtype: Any) -> None:
        self.pinned = torch().empty(shape, dtype=dtype, device="cpu", pin_memory=True)
        self.there = torch().empty(shape, dtype=dtype, device=device)
        self.copied, self.used = torch().cuda.Event(), torch().cuda.Event()
        self.release()  # the memory may be that of a tensor which work in the queue still needs

    def send(self, x: np.ndarray, stream: Any, n_threads: int) -> Tensor:
        """Begin a copy; what is queued on the current stream after this waits for it."""
        self.copied.synchronize()
        fill(self.pinned.numpy()[: len(x)], x, n_threads)
        with torch().cuda.stream(stream):
            stream.wait_event(self.used)
            self.there[: len(x)].copy_(self.pinned[: len(x)], non_blocking=True)
            self.copied.record(stream)
        torch().cuda.current_stream(self.there.device).wait_event(self.copied)
        return self.there[: len(x)]

    def release(self) -> None:
        """What is queued so far was the last to need what was sent."""
        self.used.record(torch().cuda.current_stream(self.there.device))


class Feed:
    """Sends arrays in pieces of at most `length` rows, through two pinned buffers of each kind."""

    def __init__(self, device: Any, length: int, n_threads: int) -> None:
        self.device, self.length, self.n_threads = device, length, n_threads
        self._slots: dict[Any, list[Slot]] = {}
        self._stream: Any = None

    def pieces(self, rows: Rows) -> Iterator[Rows]:
        """The rows of a block on the device; a piece is gone when the next but one is asked for."""
        for number, first in enumerate(range(0, len(rows) or 1, self.length)):
            some = rows.cut(first, first + self.length)
            slots: list[Slot] = []
            x = self._sent(some.x, number, slots)
            weight = None if some.weight is None else self._sent(some.weight, number, slots)
            try:
                yield Rows(x, weight)
            finally:
                for slot in slots:
                    slot.release()

    def _sent(self, x: np.ndarray | Array, number: int, slots: list[Slot]) -> Tensor:
        if self.device.type != "cuda":
            return torch().from_numpy(np.array(x, order="C")).to(self.device)
        if self._stream is None:
            self._stream = torch().cuda.Stream(self.device)
        kind = x.dtype, x.shape[1:]
        if kind not in self._slots:
            shape, dtype = (self.length, *x.shape[1:]), getattr(torch(), x.dtype.name)
            self._slots[kind] = [Slot(self.device, shape, dtype) for _ in range(SLOTS)]
        slots.append(self._slots[kind][number % SLOTS])
        return slots[-1].send(x, self._stream, self.n_threads)


def resident(x: np.ndarray, device: Any, length: int) -> Tensor:
    """All of an array on the device."""
    whole = torch().empty(x.shape, dtype=getattr(torch(), x.dtype.name), device=device)
    first = 0
    for piece in Feed(device, length, available_cores()).pieces(Rows(x)):
        whole[first : first + len(piece)] = piece.x
        first += len(piece)
    return whole
