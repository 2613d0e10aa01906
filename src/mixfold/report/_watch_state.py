"""What the live page shows, in memory that does not grow with the stream."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np

from mixfold.core.rows import Array
from mixfold.report._alarm import Alarm
from mixfold.report._cells_of_rows import names_of, numbers_of
from mixfold.report._component_view import (
    ComponentView,
    StableOrder,
    ellipses,
    importance,
    placed,
    view_of,
)
from mixfold.report._watched_model import Outcome

TICKS, ALARMS, RECENT, MESSAGES, DRIFTS = 900, 100, 400, 20, 20
MOST_COLUMNS, MOST_PLACES = 30, 20


@dataclass(frozen=True)
class Tick:
    """What happened in about a second, and the components at its end.

    `log_density` is the mean over the rows of the tick, NaN if none was scored. Means are of the
    columns that are shown.
    """

    number: int
    time: float
    rows: int
    seconds: float
    log_density: float
    threshold: float
    alarms: int
    weights: Array
    means: Array

    @property
    def rows_per_second(self) -> float:
        """The speed of the stream."""
        return self.rows / self.seconds if self.seconds > 0.0 else 0.0


@dataclass(frozen=True)
class Facts:
    """Numbers and words about the stream.

    `status` is one of "waiting", "learning", "paused", "ended" and "stopped", and `words` says
    more. `drifts` is None if the learner does not look for them.
    """

    status: str = "waiting"
    words: str = ""
    n_rows: int = 0
    n_scored: int = 0
    n_alarms: int = 0
    n_bad: int = 0
    last_bad: str = ""
    last_row: float | None = None
    drifts: tuple[int, ...] | None = None
    n_drifts: int = 0
    saved: str = ""
    threshold_words: str = ""


@dataclass(frozen=True)
class Picture:
    """The recent rows (n, 2) in a pair of columns, and the components there."""

    columns: tuple[int, int]
    rows: Array
    ellipses: Array | None
    centres: Array


@dataclass
class _Sum:
    """Rows since the last tick."""

    began: float
    rows: int = 0
    scored: int = 0
    log_density: float = 0.0
    alarms: int = 0
    threshold: float = float("nan")


@dataclass(frozen=True)
class Snapshot:
    """Everything that has changed since a tick and a message that a page has seen."""

    facts: Facts
    ticks: Sequence[Tick]
    alarms: Sequence[Alarm]
    messages: Sequence[tuple[int, str]]
    columns: Sequence[str]
    shown: tuple[int, ...]


class WatchState:
    """Written by the thread that learns, and read by pages in others."""

    def __init__(self, places: int, interval: float) -> None:
        self.places, self.interval = min(places, MOST_PLACES), interval
        self._lock = Lock()
        self._facts = Facts()
        self._ticks: deque[Tick] = deque(maxlen=TICKS)
        self._alarms: deque[Alarm] = deque(maxlen=ALARMS)
        self._messages: deque[tuple[int, str]] = deque(maxlen=MESSAGES)
        self._n_messages = self._n_ticks = 0
        self._order = StableOrder(places)
        self._now: tuple[ComponentView, Array] | None = None
        self._rows = np.empty((0, 0))
        self._names: list[str] = []
        self._shown: list[int] = []
        self._sum = _Sum(time.time())

    # for the thread that learns

    def set(self, **facts: Any) -> None:
        """Change some facts."""
        with self._lock:
            self._facts = replace(self._facts, **facts)

    def tell(self, message: str) -> None:
        """Add a message, with its time."""
        with self._lock:
            self._n_messages += 1
            clock = time.strftime("%H:%M:%S")
            self._messages.append((self._n_messages, f"{clock} {message}"))

    def add(self, outcome: Outcome, rows: Any) -> None:
        """Count a batch of rows that was learned."""
        recent, total = numbers_of(rows[-RECENT:]), self._sum
        scores = outcome.log_density
        total.rows += outcome.n
        total.scored += len(scores)
        total.log_density += float(scores.sum())
        total.alarms += outcome.n_alarms
        if outcome.threshold is not None:
            total.threshold = outcome.threshold
        with self._lock:
            before = self._rows if self._rows.shape[1:] == recent.shape[1:] else recent[:0]
            self._rows = np.concatenate([before, recent])[-RECENT:]
            self._alarms.extend(outcome.alarms)
            known = self._facts
            self._facts = replace(
                known,
                n_rows=known.n_rows + outcome.n,
                n_scored=known.n_scored + len(scores),
                n_alarms=known.n_alarms + outcome.n_alarms,
                last_row=time.time(),
            )

    def tick(self, mixture: Any, now: float) -> None:
        """End a tick, with the mixture as it is now; None before it has learned anything."""
        total, self._sum = self._sum, _Sum(now)
        self._sum.threshold = total.threshold
        if mixture is None:
            return
        view = view_of(mixture)
        scale = self._scale(view.means.shape[1])
        order = self._order.order(view, scale)
        drifts = getattr(mixture, "drifts_", None)
        with self._lock:
            if not self._shown or len(self._names) != view.means.shape[1]:
                self._choose_columns(mixture, view, scale)
            self._now = view, order
            self._n_ticks += 1
            places = self._order.places
            self._ticks.append(
                Tick(
                    self._n_ticks,
                    now,
                    total.rows,
                    now - total.began,
                    total.log_density / total.scored if total.scored else float("nan"),
                    total.threshold,
                    total.alarms,
                    placed(view.weights, order, places)[: self.places],
                    placed(view.means, order, places)[: self.places, self._shown],
                )
            )
            if drifts is not None:
                found = tuple(int(row) for row in drifts[-DRIFTS:])
                self._facts = replace(self._facts, drifts=found, n_drifts=len(drifts))

    def is_up_to_date(self) -> bool:
        """Whether all rows that were learned are in a tick."""
        return self._sum.rows == 0

    def _scale(self, d: int) -> Array:
        """The deviations of the d columns in recent rows; 1 where that is 0, or not known yet."""
        if self._rows.shape[1] != d:
            return np.ones(d)
        found = np.sqrt(_means(np.square(self._rows - _means(self._rows))))
        return np.where(found > 0.0, found, 1.0)

    def _choose_columns(self, mixture: Any, view: ComponentView, scale: Array) -> None:
        """The columns whose means are shown, those that differ most first."""
        self._names = names_of(mixture, view.means.shape[1])
        apart = importance(view, scale)
        order = np.argsort(-apart, kind="stable")
        known = [int(j) for j in order if not np.isnan(view.means[:, j]).any()]
        self._shown = known[:MOST_COLUMNS]
        self._ticks.clear()

    # for pages

    @property
    def facts(self) -> Facts:
        """The facts as they are now."""
        with self._lock:
            return self._facts

    def snapshot(self, tick: int = 0, message: int = 0) -> Snapshot:
        """What is new since a tick and a message; all facts and alarms."""
        with self._lock:
            return Snapshot(
                self._facts,
                [one for one in self._ticks if one.number > tick],
                [*self._alarms],
                [one for one in self._messages if one[0] > message],
                [*self._names],
                tuple(self._shown),
            )

    def picture(self, columns: tuple[int, int]) -> Picture | None:
        """The recent rows in two columns; None before there are components."""
        with self._lock:
            now, rows, places = self._now, self._rows, self.places
        if now is None or max(columns) >= rows.shape[1]:
            return None
        view, order = now
        chosen = list(columns)
        lines = ellipses(view, columns)
        at = max(places, int(order.max()) + 1)
        return Picture(
            columns,
            rows[:, chosen],
            None if lines is None else placed(lines, order, at)[:places],
            placed(view.means[:, chosen], order, at)[:places],
        )


def _means(rows: Array) -> Array:
    """Means of columns without missing cells, 0 where there are no others."""
    known = ~np.isnan(rows)
    total = np.where(known, rows, 0.0).sum(axis=0)
    return np.asarray(total / np.maximum(known.sum(axis=0), 1))
