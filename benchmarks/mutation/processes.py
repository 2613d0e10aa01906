"""Child processes that run at the same time, each with a report and a limit."""

from __future__ import annotations

import os
import resource
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

MEMORY = 8 * 2**30  # more than the parent has

Report = Callable[[bytes], None]
Task = Callable[[Report], None]


class Ended(NamedTuple):
    """What a child has reported until it ended; `stopped` if it was ended by a signal."""

    number: int
    report: bytes
    stopped: bool
    seconds: float


class Child(NamedTuple):
    """A process under way."""

    number: int
    pipe: int
    began: float
    received: list[bytes]


def run_all(
    tasks: Callable[[int], Task | None], jobs: int, seconds: float, ends: float
) -> Iterator[Ended]:
    """Run tasks 0, 1, ... until there is none, so many at a time; none begins after `ends`."""
    running: dict[int, Child] = {}
    index = 0
    while True:
        while len(running) < jobs and time.monotonic() < ends:
            task = tasks(index)
            if task is None:
                break
            running.update([start(index, task)])
            index += 1
        if not running:
            return
        yield from _ended(running, seconds)


def start(index: int, task: Task) -> tuple[int, Child]:
    """Fork a child that runs a task, with its output going nowhere."""
    reads, writes = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writes)
        return pid, Child(index, reads, time.monotonic(), [])
    try:
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silence, stream)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        limit = _memory() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        task(lambda report: _write(writes, report))
    finally:
        os._exit(0)


def limit_processor_time(seconds: float) -> None:
    """Let this process be ended by a signal after so much processor time from now."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)


def _memory() -> int:
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _write(pipe: int, report: bytes) -> None:
    while report:
        report = report[os.write(pipe, report) :]


def _ended(running: dict[int, Child], seconds: float) -> Iterator[Ended]:
    """Children that end now, or have run longer than they may."""
    ready, _, _ = select.select([child.pipe for child in running.values()], [], [], 0.5)
    now = time.monotonic()
    for pid, child in list(running.items()):
        late = now - child.began > seconds
        more = os.read(child.pipe, 2**20) if child.pipe in ready else None
        if more:
            child.received.append(more)
        if more != b"" and not late:
            continue
        if late:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        os.close(child.pipe)
        del running[pid]
        stopped = os.WIFSIGNALED(status)
        yield Ended(child.number, b"".join(child.received), stopped, now - child.began)
