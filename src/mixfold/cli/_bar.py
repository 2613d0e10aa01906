"""Progress: a bar in a terminal, lines elsewhere."""

from __future__ import annotations

import math
import sys
import time
from typing import Any, NamedTuple, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from mixfold.cli._terminal import can_show
from mixfold.cli._termination import end_undisturbed
from mixfold.fitting.fit import Fit


class Report(NamedTuple):
    """The progress of some work: rows read, their total number, and the fraction done.

    What is counted may be something else than rows: its name is the `unit`.
    """

    title: str
    row: int
    length: int | None
    share: float | None
    left: str = ""
    note: str = ""
    unit: str = "rows"

    @property
    def counted(self) -> str:
        """The number of rows in short form."""
        of = f"{_short(self.row)} of {_short(self.length)}" if self.length else _short(self.row)
        return f"{of} {self.unit}"


class Display(Protocol):
    """Displays the progress of some work."""

    def show(self, report: Report) -> None: ...
    def close(self) -> None: ...


def display(title: str, asked: bool) -> Display:
    """A bar if stderr is a terminal; otherwise lines if asked for, or nothing."""
    if sys.stderr.isatty():
        return Bar(title)
    return Lines() if asked else Nothing()


class Nothing:
    """Shows nothing."""

    def show(self, report: Report) -> None:
        return None

    def close(self) -> None:
        return None


class Lines:
    """A line at most every second."""

    def __init__(self) -> None:
        self._last = -math.inf

    def show(self, report: Report) -> None:
        if time.monotonic() - self._last < 1.0:
            return
        self._last = time.monotonic()
        parts = [part for part in (report.title, report.counted, report.note, report.left) if part]
        print(f"mixfold: {', '.join(parts)}", file=sys.stderr, flush=True)

    def close(self) -> None:
        return None


class Bar:
    """A progress bar that is removed when the work is done."""

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

    def show(self, report: Report) -> None:
        self._progress.update(
            self._task,
            description=report.title,
            completed=report.share or 0.0,
            total=None if report.share is None else 1.0,
            rows=report.counted,
            left=report.left,
            note=report.note,
        )

    def close(self) -> None:
        self._progress.stop()


class Budget(NamedTuple):
    """The number of passes per initialisation; `early` if learning may stop sooner."""

    passes: int | None
    early: bool = False


def budget_of(learner: Any, max_iter: int | None) -> Budget:
    """The number of passes that a learner makes over the data, at most `max_iter`."""
    known = [n for n in (max_iter, getattr(learner, "max_iter", None)) if n is not None]
    return Budget(min(known, default=None), early=bool(getattr(learner, "tol", 0.0)))


class Pace:
    """Estimates the remaining time from the rows read since the first report."""

    def __init__(self) -> None:
        self._first: tuple[int, float] | None = None

    def left(self, read: int, to_read: int, early: bool = False) -> str:
        """The remaining time as text; empty if it is unknown or less than a second."""
        if self._first is None:
            self._first = read, time.monotonic()
        rows, seconds = read - self._first[0], time.monotonic() - self._first[1]
        if rows <= 0:
            return ""
        left = seconds * to_read / rows
        return f"{'at most ' * early}{clock(left)} left" if left >= 1.0 else ""


class RowProgress:
    """Displays how many rows are done and, where their number is known, the remaining time."""

    def __init__(self, title: str, length: int | None, asked: bool) -> None:
        self._title, self._length, self._row = title, length, 0
        self._display, self._pace = display(title, asked), Pace()

    def update(self, n: int) -> None:
        """Report that n more rows are done."""
        self._row += n
        row, length = self._row, self._length
        share = row / length if length else None
        left = self._pace.left(row, length - row) if length else ""
        self._display.show(Report(self._title, row, length, share, left))

    def close(self) -> None:
        """Remove the display."""
        self._display.close()


class SearchProgress:
    """Displays how many searches of a selection are done, and then the passes over all rows."""

    def __init__(self, asked: bool) -> None:
        self._display, self._pace = display("searching for initial parameters", asked), Pace()

    def update(self, done: int, searches: int, passes: int) -> None:
        """Report searches that are done, or a pass."""
        if passes:
            report = Report("fitting", passes, None, None, unit="passes over all rows")
        else:
            left = self._pace.left(done, searches - done)
            share = done / searches
            title = "searching for initial parameters"
            report = Report(title, done, searches, share, left, unit="searches")
        self._display.show(report)

    def close(self) -> None:
        """Remove the display."""
        self._display.close()


class Watch:
    """Records the progress of a fit and displays it.

    The remaining time is that of the whole fit if the largest number of passes and their length are
    known, that is, after the first pass.
    """

    def __init__(self, asked: bool, budget: Budget, starts: int = 1, name: str = "") -> None:
        self.fit: Fit | None = None
        self.length: int | None = None
        self.budget, self.starts = budget, starts
        self._prefix = f"{name}: " if name else ""
        self._display = display(f"{self._prefix}choosing a start", asked)
        self._began, self._pace = time.monotonic(), Pace()

    @property
    def seconds(self) -> float:
        """Seconds since the fit began, including initialisation and earlier runs."""
        earlier = self.fit.seconds if self.fit is not None else 0.0
        return max(earlier, time.monotonic() - self._began)

    def update(self, fit: Fit, length: int | None) -> None:
        """Report that a block, a pass or an initialisation is done."""
        self.length = length or fit.length or self.length
        self.fit = fit
        if fit.done:
            end_undisturbed()
        else:
            self._display.show(self._report(fit))

    def _report(self, fit: Fit) -> Report:
        reached, passes = fit.log_likelihood, self.budget.passes
        note = "" if math.isnan(reached) else f"log-likelihood {reached:.5g}"
        share, left = None, ""
        if self.length and passes:
            total = self.length * passes * self.starts
            done = min(total, self.length * (fit.start * passes + fit.passes) + fit.row)
            share = done / total
            left = self._pace.left(fit.rows_seen, total - done, self.budget.early)
        return Report(self._title(fit), fit.row, self.length, share, left, note)

    def _title(self, fit: Fit) -> str:
        number, passes = fit.passes + 1, self.budget.passes
        of = ""
        if passes:  # the last report of an initialisation counts the passes that are done
            number, of = min(number, passes), f" of {'at most ' * self.budget.early}{passes}"
        start = f"start {fit.start + 1} of {self.starts}, " if self.starts > 1 else ""
        return f"{self._prefix}{start}pass {number}{of}"

    def close(self) -> None:
        """Remove the display."""
        self._display.close()


def _short(n: int) -> str:
    """A count in short form: 999, 12.3k, 4.56M."""
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
