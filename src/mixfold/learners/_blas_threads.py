"""Linear algebra of small matrices on one thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

MOST_COLUMNS = 128  # of rows whose products are small

_lock = threading.Lock()
_entered: list[ExitStack] = []  # one for each call under way; the first holds the limit


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_blas_thread(d: int) -> Iterator[None]:
    """Compute products of matrices on one thread, if rows have few columns.

    The threads of BLAS wait for one another busily, which takes longer than small products, and
    several times as long on a machine with other work.
    """
    if d > MOST_COLUMNS:
        yield
        return
    with _lock:
        stack = ExitStack()
        if not _entered:
            stack.enter_context(_libraries().limit(limits=1, user_api="blas"))
        _entered.append(stack)
    try:
        yield
    finally:
        with _lock:
            last = _entered.pop()  # the limit ends with the last call
            if not _entered:
                last.close()
