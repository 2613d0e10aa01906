"""The live page of one browser: a document of Bokeh, and what it is told."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from math import isnan
from typing import Any

from mixfold.core.registry import name_of
from mixfold.report._alarm import Alarm
from mixfold.report._colours import Mark, colour_of
from mixfold.report._live_figures import LiveFigures
from mixfold.report._pages import environment
from mixfold.report._stream_watcher import StreamWatcher
from mixfold.report._watch_state import Facts, Snapshot, Tick

EVERY = 500  # milliseconds
SPEED_OVER = 5  # ticks over which the speed is a mean
MOST_MARKS = 10


class LivePage:
    """Fills a document, and keeps it up to date."""

    def __init__(self, watcher: StreamWatcher, document: Any) -> None:
        from bokeh.models import ColumnDataSource

        self.watcher, self.document = watcher, document
        self.figures = LiveFigures(watcher.state.places)
        self.news = ColumnDataSource(name="news", data={"json": ["{}"]})
        self.commands = ColumnDataSource(name="commands", data={"name": [], "value": []})
        self.commands.on_change("data", lambda attribute, old, new: self._command(new))
        self._tick = self._message = self._alarm = 0
        self._columns: tuple[str, ...] = ()
        self._chosen: dict[str, int] = {}
        self._shown: tuple[int, ...] = ()
        self._recent: list[Tick] = []
        self._fill()

    def _fill(self) -> None:
        document, state = self.document, self.watcher.state
        document.title = f"mixfold watch: {self.watcher.source.name}"
        document.template = environment().get_template("live.html")
        document.template_variables.update(
            {
                "lead": _lead(self.watcher),
                "marks": [
                    Mark(f"component {k}", colour_of(k), "line")
                    for k in range(min(state.places, MOST_MARKS))
                ],
                "live": (environment().loader.get_source(environment(), "live.js")[0]),
            }
        )
        for name, figure in self.figures.roots().items():
            figure.name = name
            document.add_root(figure)
        for source in (self.news, self.commands):
            document.add_root(source)
        self.update()
        document.add_periodic_callback(self.update, EVERY)

    # from the browser

    def _command(self, given: Any) -> None:
        for name, value in zip(given.get("name", ()), given.get("value", ()), strict=False):
            if name in ("pause", "continue"):
                self.watcher.pause(name == "pause")
            elif name == "save":
                self.watcher.save()
            elif name in ("mean", "x", "y") and isinstance(value, int):
                self._choose(name, value)

    def _choose(self, name: str, column: int) -> None:
        """Show another column."""
        if not 0 <= column < len(self._columns):
            return
        self._chosen[name] = column
        if name == "mean":
            self.figures.replace(self._all_ticks(), self._mean_column())
        else:
            self._show_pair()

    # to the browser

    def update(self) -> None:
        """Show what is new."""
        found = self.watcher.state.snapshot(self._tick, self._message)
        if found.shown != self._shown or tuple(found.columns) != self._columns:
            self._begin(found)
        elif found.ticks:
            self.figures.stream(found.ticks, self._mean_column())
        if found.ticks:
            self._tick = found.ticks[-1].number
            self._recent = [*self._recent, *found.ticks][-SPEED_OVER:]
            self._show_pair()
        newest = found.alarms[-1].row if found.alarms else 0
        if newest != self._alarm:
            self._alarm = newest
            self.figures.show_alarms(found.alarms)
        if found.messages:
            self._message = found.messages[-1][0]
        text = json.dumps(self._news(found))
        if text != self.news.data["json"][0]:
            self.news.data = {"json": [text]}

    def _begin(self, found: Snapshot) -> None:
        """The columns are known now: choose those that differ most between components."""
        self._columns, self._shown = tuple(found.columns), found.shown
        best = [*found.shown, *(j for j in range(len(found.columns)) if j not in found.shown)]
        second = best[1] if len(best) > 1 else best[0]
        self._chosen = {"mean": best[0], "x": best[0], "y": second}
        self.figures.replace(self._all_ticks(), self._mean_column())
        self._show_pair()

    def _all_ticks(self) -> Sequence[Tick]:
        return [one for one in self.watcher.state.snapshot().ticks if one.number <= self._last()]

    def _last(self) -> int:
        return self._tick if self._tick else 2**62

    def _mean_column(self) -> int | None:
        chosen = self._chosen.get("mean")
        return self._shown.index(chosen) if chosen in self._shown else None

    def _show_pair(self) -> None:
        if not self._chosen:
            return
        pair = self._chosen["x"], self._chosen["y"]
        names = self._columns[pair[0]], self._columns[pair[1]]
        self.figures.show_pair(self.watcher.state.picture(pair), names)

    def _news(self, found: Snapshot) -> dict[str, Any]:
        facts = found.facts
        return {
            "status": facts.status,
            "words": facts.words,
            "paused": self.watcher.is_paused,
            "facts": self._facts(facts),
            "threshold": facts.threshold_words,
            "bad": facts.last_bad,
            "saved": facts.saved,
            "drifts": _drift_words(facts),
            "columns": self._columns,
            "shown": self._shown,
            "chosen": self._chosen,
            "messages": [text for _, text in self.watcher.state.snapshot().messages][::-1],
            "alarms": [_alarm(one) for one in reversed(found.alarms)],
        }

    def _facts(self, facts: Facts) -> dict[str, str]:
        """The numbers above the pictures, by the names of their places."""
        recent = self._recent
        seconds = sum(tick.seconds for tick in recent)
        speed = sum(tick.rows for tick in recent) / seconds if seconds else 0.0
        scored = [tick for tick in recent if not isnan(tick.log_density)]
        realised = facts.n_alarms / facts.n_scored if facts.n_scored else 0.0
        return {
            "rows": f"{facts.n_rows:,}",
            "speed": f"{speed:,.0f}" if speed >= 10 else f"{speed:.1f}",
            "likelihood": f"{scored[-1].log_density:.4g}" if scored else "–",
            "alarms": f"{facts.n_alarms:,} ({realised:.2%})",
            "bad_rows": f"{facts.n_bad:,}",
            "drifts": "–" if facts.drifts is None else f"{facts.n_drifts:,}",
            "last_row": _clock(facts.last_row),
        }


def _lead(watcher: StreamWatcher) -> str:
    mixture = watcher.model.mixture
    family, learner = mixture.family, mixture.learner
    words = family if isinstance(family, str) else name_of(family)
    covariance = getattr(family, "covariance", None)
    shape = f" with {covariance} covariances" if isinstance(covariance, str) else ""
    how = learner if isinstance(learner, str) else name_of(learner)
    return f"{mixture.n_components} components, family {words}{shape}, learner {how}"


def _clock(at: float | None) -> str:
    return "none yet" if at is None else time.strftime("%H:%M:%S", time.localtime(at))


def _drift_words(facts: Facts) -> str:
    if facts.drifts is None:
        return "This learner does not look for drift; start with --learner drift-aware."
    if not facts.drifts:
        return "No drift was detected."
    rows = ", ".join(f"{row:,}" for row in facts.drifts)
    return f"Drift was detected after rows {rows}."


def _alarm(one: Alarm) -> dict[str, Any]:
    """An alarm as texts."""
    cells = [f"{cell.column} = {cell.value}" for cell in one.cells]
    return {
        "row": f"{one.row:,}",
        "time": _clock(one.time),
        "log_density": f"{one.log_density:.4g}",
        "threshold": f"{one.threshold:.4g}",
        "cells": cells or ["not known for this family"],
    }
