"""Reading ahead in a thread while the kernel computes."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import TypeVar

T = TypeVar("T")


def prefetched(items: Iterator[T], depth: int = 2) -> Iterator[T]:
    """The same items, produced by a thread that is at most `depth` ahead."""
    queue: Queue[tuple[str, T | BaseException | None]] = Queue(depth)
    stop = Event()

    def put(kind: str, thing: T | BaseException | None) -> None:
        while not stop.is_set():
            try:
                queue.put((kind, thing), timeout=0.1)
            except Full:
                continue
            return

    def read() -> None:
        try:
            for item in items:
                put("item", item)
                if stop.is_set():
                    return
            put("end", None)
        except BaseException as error:  # any error is raised again in the consumer
            put("error", error)

    reader = Thread(target=read, daemon=True, name="mixfold-reader")
    reader.start()
    try:
        while True:
            kind, thing = queue.get()
            if kind == "end":
                return
            if isinstance(thing, BaseException):
                raise thing
            yield thing  # type: ignore[misc]
    finally:
        stop.set()
        while True:
            try:
                queue.get_nowait()
            except Empty:
                break
        reader.join()
