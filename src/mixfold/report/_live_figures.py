"""The figures of the live page, and the columns of numbers that they draw."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from mixfold.core.rows import Array
from mixfold.report._alarm import Alarm
from mixfold.report._bokeh import new_figure, plain
from mixfold.report._colours import NEUTRAL, colour_of
from mixfold.report._texts import cut
from mixfold.report._watch_state import TICKS, Picture, Tick

HEIGHT = 240
TOOLS = "pan,box_zoom,reset"


class LiveFigures:
    """Figures over the same ticks, for one browser. `n` is the number of places of components."""

    def __init__(self, places: int) -> None:
        from bokeh.models import ColumnDataSource

        self.places = places
        self.ticks = ColumnDataSource(name="ticks", data=self._columns([], None))
        self.rows = ColumnDataSource(data={"x": [], "y": []})
        self.lines = ColumnDataSource(data={"xs": [], "ys": [], "colour": []})
        self.centres = ColumnDataSource(data={"x": [], "y": [], "colour": []})
        self.unusual = ColumnDataSource(data={"time": [], "log_density": []})
        self.likelihood = self._likelihood()
        shared = self.likelihood.x_range
        self.speed = self._speed(shared)
        self.weights = self._of_components("weight", "w", shared)
        self.weights.y_range.start, self.weights.y_range.end = 0.0, 1.0
        self.means = self._of_components("mean", "m", shared)
        self.pair = self._pair()
        self.alarms = self._alarms(shared)

    def roots(self) -> dict[str, Any]:
        """The figures by the names of their places in the page."""
        return {
            "likelihood": self.likelihood,
            "speed": self.speed,
            "weights": self.weights,
            "means": self.means,
            "pair": self.pair,
            "below": self.alarms,
        }

    # numbers

    def _columns(self, ticks: Sequence[Tick], column: int | None) -> dict[str, Any]:
        """Ticks as columns; `column` is the number among those shown whose means are drawn."""
        found: dict[str, Any] = {
            "time": [_on_axis(tick.time) for tick in ticks],
            "log_density": [tick.log_density for tick in ticks],
            "threshold": [tick.threshold for tick in ticks],
            "speed": [tick.rows_per_second for tick in ticks],
            "alarms": [tick.alarms for tick in ticks],
        }
        for place in range(self.places):
            found[f"w{place}"] = [_at(tick.weights, place) for tick in ticks]
            found[f"m{place}"] = [
                float("nan") if column is None else _at(tick.means, (place, column))
                for tick in ticks
            ]
        return {name: np.asarray(cells, dtype=np.float64) for name, cells in found.items()}

    def stream(self, ticks: Sequence[Tick], column: int | None) -> None:
        """Add ticks; the oldest are dropped."""
        if ticks:
            self.ticks.stream(self._columns(ticks, column), rollover=TICKS)

    def replace(self, ticks: Sequence[Tick], column: int | None) -> None:
        """Show these ticks only."""
        self.ticks.data = self._columns(ticks, column)

    def show_alarms(self, alarms: Sequence[Alarm]) -> None:
        """Show the recent alarms."""
        self.unusual.data = {
            "time": [_on_axis(alarm.time) for alarm in alarms],
            "log_density": [alarm.log_density for alarm in alarms],
        }

    def show_pair(self, picture: Picture | None, names: tuple[str, str]) -> None:
        """Show the recent rows and the components in two columns."""
        if picture is None:
            return
        across, up = (plain(cut(name)) for name in names)
        self.pair.xaxis.axis_label, self.pair.yaxis.axis_label = across, up
        self.rows.data = {"x": picture.rows[:, 0], "y": picture.rows[:, 1]}
        known = [k for k in range(len(picture.centres)) if not np.isnan(picture.centres[k]).any()]
        self.centres.data = {
            "x": picture.centres[known, 0],
            "y": picture.centres[known, 1],
            "colour": [colour_of(k) for k in known],
        }
        curves = [] if picture.ellipses is None else [picture.ellipses[k] for k in known]
        self.lines.data = {
            "xs": [curve[:, 0] for curve in curves],
            "ys": [curve[:, 1] for curve in curves],
            "colour": [colour_of(k) for k in known[: len(curves)]],
        }

    # figures

    def _time_figure(self, label: str, x_range: Any = None) -> Any:
        more = {} if x_range is None else {"x_range": x_range}
        made = new_figure("", label, height=HEIGHT, tools=TOOLS, x_axis_type="datetime", **more)
        made.xaxis.axis_label = None
        made.xaxis.ticker.desired_num_ticks = 3  # that fit on a phone
        return made

    def _likelihood(self) -> Any:
        made = self._time_figure("log-density")
        made.line("time", "log_density", source=self.ticks, line_width=2, line_color=colour_of(0))
        return made

    def _alarms(self, x_range: Any) -> Any:
        made = self._time_figure("log-density", x_range)
        under = {"line_width": 2, "line_color": NEUTRAL, "line_dash": [6, 4]}
        made.line("time", "threshold", source=self.ticks, **under)
        points = {"size": 8, "color": colour_of(1), "fill_alpha": 0.5}
        made.scatter("time", "log_density", source=self.unusual, **points)
        return made

    def _speed(self, x_range: Any) -> Any:
        made = self._time_figure("rows per second", x_range)
        made.y_range.start = 0.0
        made.line("time", "speed", source=self.ticks, line_width=2, line_color=colour_of(2))
        return made

    def _of_components(self, label: str, letter: str, x_range: Any) -> Any:
        made = self._time_figure(label, x_range)
        for place in range(self.places):
            made.line(
                "time",
                f"{letter}{place}",
                source=self.ticks,
                line_width=2.5,
                line_color=colour_of(place),
                line_dash=[] if place < 10 else [5, 3],
            )
        return made

    def _pair(self) -> Any:
        made = new_figure("", "", height=380, tools=TOOLS)
        points = {"size": 4, "line_color": None, "fill_color": NEUTRAL, "fill_alpha": 0.6}
        made.scatter("x", "y", source=self.rows, **points)
        made.multi_line("xs", "ys", source=self.lines, line_color="colour", line_width=2.5)
        made.scatter("x", "y", source=self.centres, size=9, color="colour", marker="square")
        return made


def _on_axis(seconds: float) -> float:
    """A time as Bokeh's axes have it: milliseconds by the clock of this place."""
    return 1000.0 * (seconds + time.localtime(seconds).tm_gmtoff)


def _at(values: Array, place: Any) -> float:
    """A number of an array; NaN if there are fewer."""
    try:
        return float(values[place])
    except IndexError:
        return float("nan")
