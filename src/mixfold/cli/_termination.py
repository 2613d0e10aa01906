"""Handling of SIGTERM, which containers and batch systems send to stop a process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

INTERRUPTED, TERMINATED = 130, 143


class Terminated(KeyboardInterrupt):
    """SIGTERM was received; the process still has time to save."""


class Termination:
    """Raises `Terminated` once; not at all when the work is about to end."""

    def __init__(self) -> None:
        self.received = self.ending = False

    def __call__(self, number: int, frame: Any) -> None:
        self.received = True
        if not self.ending:
            self.ending = True
            raise Terminated


@contextmanager
def terminations(last: bool) -> Iterator[Termination]:
    """SIGTERM raises `Terminated` here, unless it is ignored or this is another thread.

    Afterwards the previous handler is restored. If this is the `last` work of the process, SIGTERM
    is ignored instead, so that the process ends with its own exit code.
    """
    handler = Termination()
    before = signal.getsignal(signal.SIGTERM)
    elsewhere = threading.current_thread() is not threading.main_thread()
    if elsewhere or before is None or before is signal.SIG_IGN:
        yield handler
        return
    signal.signal(signal.SIGTERM, handler)
    try:
        yield handler
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN if last else before)


def end_undisturbed() -> None:
    """Ignore SIGTERM from here on: only saving is left to do."""
    handler = signal.getsignal(signal.SIGTERM)
    if isinstance(handler, Termination):
        handler.ending = True
