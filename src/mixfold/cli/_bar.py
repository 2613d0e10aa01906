"""Progress: a bar in a terminal, lines elsewhere."""

from __future__ import annotations

import math
import sys
import time
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from mixfold.cli._terminal import can_show
from mixfold.cli._termination import end_undisturbed
from mixfold.run.fit import Fit


class Display(Protocol):
    """Shows how far some work has come."""

    def show(self, title: str, row: int, length: int | None, left: str, note: str) -> None: ...
    def close(self) -> None: ...


def display(title: str, asked: bool) -> Display:
    """A bar if stderr is a terminal; otherwise lines if asked for, or nothing."""
    if sys.stderr.isatty():
        return Bar(title)
    return Lines() if asked else Nothing()


class Nothing:
    """Shows nothing."""

    def show(self, title: str, row: int, length: int | None, left: str, note: str) -> None:
        return None

    def close(self) -> None:
        return None


class Lines:
    """A line at most every second."""

    def __init__(self) -> None:
        self._last = -math.inf

    def show(self, title: str, row: int, length: int | None, left: str, note: str) -> None:
        if time.monotonic() - self._last < 1.0:
            return
        self._last = time.monotonic()
        told = [part for part in (title, _rows(row, length), note, left) if part]
        print(f"mixfold: {', '.join(told)}", file=sys.stderr, flush=True)

    def close(self) -> None:
        return None


class Bar:
    """A bar that goes away when the work is done."""

    def __init__(self, title: str) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            SpinnerColumn("dots" if can_show("⠋", console.encoding) else "line"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            TextColumn("{task.fields[rows]}"),
            TextColumn("{task.fields[note]}", style="cyan"),
            TextColumn("{task.fields[left]}", style="dim"),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task(title, total=None, rows="", note="", left="")
        self._progress.start()

    def show(self, title: str, row: int, length: int | None, left: str, note: str) -> None:
        self._progress.update(
            self._task,
            description=title,
            completed=row,
            total=length,
            rows=_rows(row, length),
            left=left,
            note=note,
        )

    def close(self) -> None:
        self._progress.stop()


class Watch:
    """Remembers how far a fit has come, and displays it.

    `passes` is how many passes there will be, where that is known: then the time left is that
    of the whole fit, otherwise of the pass.
    """

    def __init__(
        self, asked: bool, passes: int | None = None, starts: int = 1, name: str = ""
    ) -> None:
        self.fit: Fit | None = None
        self.length: int | None = None
        self.passes, self.starts = passes, starts
        self._prefix = f"{name}: " if name else ""
        self._display = display(f"{self._prefix}choosing a start", asked)
        self._began = self._pass_began = time.monotonic()
        self._first: int | None = None
        self._at = (0, 0)

    @property
    def seconds(self) -> float:
        """Since the fit began, choosing a start and earlier runs included."""
        earlier = self.fit.seconds if self.fit is not None else 0.0
        return max(earlier, time.monotonic() - self._began)

    def update(self, fit: Fit, length: int | None) -> None:
        """One more block, pass or start is done."""
        if self._first is None:
            self._first, self._learning = fit.rows_seen - fit.row, time.monotonic()
        self.length = length or self.length
        if (fit.start, fit.passes) != self._at:
            if self.length is None and self.fit is not None and self.fit.row:
                self.length = self.fit.row  # a whole pass has shown how long the data is
            self._at, self._pass_began = (fit.start, fit.passes), time.monotonic()
        self.fit = fit
        if fit.done:
            end_undisturbed()
        else:
            left, reached = self._left(fit), fit.log_likelihood
            note = "" if math.isnan(reached) else f"log-likelihood {reached:.5g}"
            self._display.show(self._title(fit), fit.row, self.length, left, note)

    def _title(self, fit: Fit) -> str:
        of = f" of {self.passes}" if self.passes else ""
        start = f"start {fit.start + 1} of {self.starts}, " if self.starts > 1 else ""
        return f"{self._prefix}{start}pass {fit.passes + 1}{of}"

    def _left(self, fit: Fit) -> str:
        """Time left, from the pace so far."""
        if not self.length or not fit.row:
            return ""
        if self.passes is None:
            spent = time.monotonic() - max(self._pass_began, self._learning)
            return f"{clock(spent * (self.length / fit.row - 1.0))} left in pass"
        total = self.length * self.passes * self.starts
        done = self.length * (fit.start * self.passes + fit.passes) + fit.row
        new = fit.rows_seen - (self._first or 0)
        spent = time.monotonic() - self._learning
        return f"{clock(spent * max(0, total - done) / max(1, new))} left"

    def close(self) -> None:
        """Take the display away."""
        self._display.close()


def _rows(row: int, length: int | None) -> str:
    return f"{_short(row)} of {_short(length)} rows" if length else f"{_short(row)} rows"


def _short(n: int) -> str:
    """A count in few characters: 999, 12.3k, 4.56M."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if n >= size:
            return f"{n / size:.4g}{unit}"
    return str(n)


def clock(seconds: float) -> str:
    """Minutes and seconds, with hours where there are any."""
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"
