"""Copies of rows to a device, which overlap with computations on the rows before."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from mixfold.backends.threads import pool
from mixfold.core.rows import Array, Rows
from mixfold.kernels.optional_torch import Tensor, torch

SLOTS = 2
PART_BYTES = 2**20
MOST_PARTS = 16


def fill(to: np.ndarray, x: np.ndarray, n_threads: int) -> None:
    """Copy rows with several threads; one alone is slower than the transfer to the device."""
    parts = min(n_threads, MOST_PARTS, x.nbytes // PART_BYTES)
    if parts < 2:
        to[:] = x
        return
    ends = [len(x) * i // parts for i in range(parts + 1)]
    cuts = [slice(*pair) for pair in pairwise(ends)]
    list(pool(n_threads).map(lambda cut: np.copyto(to[cut], x[cut]), cuts))


class Slot:
    """A pinned buffer, its copy on the device, and events that say when each can be reused."""

    def __init__(self, device: Any, shape: tuple[int, ...], dtype: Any) -> None:
        self.pinned = torch().empty(shape, dtype=dtype, device="cpu", pin_memory=True)
        self.there = torch().empty(shape, dtype=dtype, device=device)
        self.copied, self.used = torch().cuda.Event(), torch().cuda.Event()
        self.release()  # queued work may still read this memory

    def send(self, x: np.ndarray, stream: Any, n_threads: int) -> Tensor:
        """Start a copy; work that is queued on the current stream afterwards waits for it."""
        self.copied.synchronize()
        fill(self.pinned.numpy()[: len(x)], x, n_threads)
        with torch().cuda.stream(stream):
            stream.wait_event(self.used)
            self.there[: len(x)].copy_(self.pinned[: len(x)], non_blocking=True)
            self.copied.record(stream)
        torch().cuda.current_stream(self.there.device).wait_event(self.copied)
        return self.there[: len(x)]

    def release(self) -> None:
        """Mark the slot as free once the work queued so far is done."""
        self.used.record(torch().cuda.current_stream(self.there.device))


class Feed:
    """Sends arrays in pieces, through two pinned buffers of each kind."""

    def __init__(self, device: Any, n_threads: int) -> None:
        self.device, self.n_threads = device, n_threads
        self._slots: dict[Any, Slot] = {}
        self._stream: Any = None

    def pieces(self, rows: Rows, length: int) -> Iterator[Rows]:
        """At most `length` rows at a time; a piece is overwritten by the one after the next."""
        for number, first in enumerate(range(0, len(rows) or 1, length)):
            some = rows.cut(first, first + length)
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
        slots.append(self._slot(x, number % SLOTS))
        return slots[-1].send(x, self._stream, self.n_threads)

    def _slot(self, x: np.ndarray, number: int) -> Slot:
        """A buffer with room for the rows; its size depends on the rows that are sent."""
        kind = x.dtype, x.shape[1:], number
        slot = self._slots.get(kind)
        if slot is None or len(slot.there) < len(x):
            slot = self._slots[kind] = Slot(self.device, x.shape, getattr(torch(), x.dtype.name))
        return slot


def resident(x: np.ndarray, device: Any, length: int, n_threads: int) -> Tensor:
    """All of an array on the device."""
    whole = torch().empty(x.shape, dtype=getattr(torch(), x.dtype.name), device=device)
    first = 0
    for piece in Feed(device, n_threads).pieces(Rows(x), length):
        whole[first : first + len(piece)] = piece.x
        first += len(piece)
    return whole
