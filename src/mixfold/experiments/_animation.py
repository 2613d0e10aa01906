"""Two learners on one stream, as a moving picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mixfold.core.rows import Array
from mixfold.experiments._measures import squared_error
from mixfold.experiments._streaming import SCHEDULES, SLOW, Stream, log_spaced, online_learners
from mixfold.experiments._writing import new_figure
from mixfold.experiments.templates import Template
from mixfold.models.mixture_model import MixtureParams

SHOWN = ("online EM", "online k-MLE argmax")
COLOURS = ("#1f77b4", "#d62728")
# above the true density there is room for the legend
HEADROOM = 1.9
FRAMES_PER_DECADE, FRAMES_PER_SECOND, LAST_FRAMES = 14, 6, 12


def animate(path: Path, template: Template, stream: Stream) -> None:
    """The truth, and what each learner takes for it, as rows arrive."""
    figure = new_figure(8.0, 3.4)
    from matplotlib.animation import PillowWriter

    marks = log_spaced(len(stream.rows), FRAMES_PER_DECADE)
    learners = online_learners(SCHEDULES[SLOW])
    histories = [list(stream.online(learners[name], marks)) for name in SHOWN]
    axes = figure.subplots(1, len(SHOWN), sharey=True)
    grid = _grid(template)
    writer = PillowWriter(fps=FRAMES_PER_SECOND)
    with writer.saving(figure, str(path), dpi=80):
        for frame, rows in enumerate(marks):
            figure.suptitle(f"{rows:,} rows seen", fontsize=12)
            for axis, name, history in zip(axes, SHOWN, histories, strict=True):
                _draw(axis, name, template, history[frame], grid)
            for _ in range(LAST_FRAMES if rows == marks[-1] else 1):
                writer.grab_frame()


def _grid(template: Template) -> Array:
    means = template.locations(template.params)
    return np.linspace(means.min() - 4.0, means.max() + 4.0, 300)[:, None]


def _parts(template: Template, params: MixtureParams, grid: Array) -> Array:
    """Weighted densities of the components on the grid, (n, K)."""
    return np.asarray(np.exp(template.model.log_joint(params, grid)))


def _draw(axis: Any, name: str, template: Template, params: MixtureParams, grid: Array) -> None:
    axis.clear()
    true, learned = (_parts(template, p, grid) for p in (template.params, params))
    x = grid[:, 0]
    axis.fill_between(x, true.sum(axis=1), color="#dddddd", label="true density")
    for k, part in enumerate(true.T):
        axis.plot(x, part, "--", color="#666666", linewidth=1.2, label="" if k else "true parts")
    order = template.locations(params)[:, 0].argsort()
    for colour, k in zip(COLOURS, order, strict=True):
        name_once = "learned parts" if k == order[0] else ""
        axis.plot(x, learned[:, k], color=colour, linewidth=2.0, label=name_once)
    axis.plot(x, learned.sum(axis=1), color="black", linewidth=1.0, label="learned density")
    axis.set_title(f"{name}: squared error {squared_error(template, params):.3f}", fontsize=10)
    axis.set_ylim(0.0, HEADROOM * true.sum(axis=1).max())
    axis.set_yticks([])
    axis.legend(loc="upper right", fontsize=8, frameon=False)
