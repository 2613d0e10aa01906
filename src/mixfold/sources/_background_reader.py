"""Reading what can only be waited for, such as a pipe, in a thread."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Generic, TypeVar

T = TypeVar("T")

PAUSE = 0.2  # seconds between looks whether reading is to end


class BackgroundReader(Generic[T]):
    """Calls `read` in a thread until it returns None, and keeps at most `most` results.

    When these have not been taken, the thread waits, and with it whoever writes to the pipe.
    """

    def __init__(self, read: Callable[[], T | None], most: int) -> None:
        self._read, self._stop = read, Event()
        self._queue: Queue[T] = Queue(most)
        self._error: Exception | None = None
        self._done = False
        self._thread = Thread(target=self._run, name="mixfold-reader", daemon=True)

    def _run(self) -> None:
        try:
            while not self._stop.is_set() and (found := self._read()) is not None:
                self._put(found)
        except Exception as error:  # any error of what is read, which the one who takes is told
            self._error = error
        self._done = True

    def _put(self, found: T) -> None:
        while not self._stop.is_set():
            try:
                self._queue.put(found, timeout=PAUSE)
            except Full:
                continue
            return

    def take(self) -> T | None:
        """The next result; None if there is none yet, or no more. Errors of reading are raised."""
        if self._thread.ident is None:
            self._thread.start()
        done = self._done
        try:
            return self._queue.get_nowait()
        except Empty:
            if done and self._error is not None:
                error, self._error = self._error, None
                raise error from None
            return None

    @property
    def ended(self) -> bool:
        """Whether everything was read and taken."""
        return self._done and self._queue.empty() and self._error is None

    def close(self) -> None:
        """End the thread as soon as what it waits for has come."""
        self._stop.set()
