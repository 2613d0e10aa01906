"""Is online k-MLE consistent? Two Gaussians that overlap more and more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from mixfold.backends.threads import Threads
from mixfold.core.rows import Rows
from mixfold.experiments import _streaming as streaming
from mixfold.experiments._animation import animate
from mixfold.experiments._curves import Curve, draw_curves
from mixfold.experiments._measures import divergence, squared_error
from mixfold.experiments._streaming import BATCH, HARMONIC, SCHEDULES, SLOW, Stream
from mixfold.experiments._writing import write_csv, write_markdown
from mixfold.experiments.templates import Template, gaussian
from mixfold.experiments.wanted import Wanted
from mixfold.models.mixture_model import MixtureParams

# (mu2, sigma2) beside N(0, 1); the last two overlap most
OVERLAPS = ((6.0, 1.0), (4.0, 1.0), (3.0, 1.0), (2.0, 1.0), (2.0, 2.0))
SHOWN = (3.0, 1.0)
MEASURES = {"squared_error": "squared error", "divergence": "KL divergence"}
# of the figure: a measure, and the step sizes of the online learners
PANELS = (("squared_error", SLOW), ("squared_error", HARMONIC), ("divergence", SLOW))
# (K, d) of the mixtures that updates are timed on
SIZES = ((2, 1), (10, 4), (10, 20))
# a component that holds less of the weight counts as lost
LOST = 0.01
TIMED, ROUNDS = 10_000, 15
# beyond, whole passes take long and show nothing new
MOST_FOR_BATCH = 10**5

Result = dict[str, Any]


class OnlineKmle:
    """The claims of Saint-Jean and Nielsen's slides on consistency, error and time."""

    n = 10**5
    reps = 8

    def run(self, wanted: Wanted) -> None:
        """All overlaps and replications; tables, curves and an animation go to `out`."""
        reps, n = wanted.reps or self.reps, max(wanted.n or self.n, 10 * streaming.FIRST)
        out = wanted.folder()
        results = list[Result]()
        for overlap in OVERLAPS:
            for rep in range(reps):
                results += replicate(overlap, n, rep)
                write_csv(out / "online-kmle.csv", results)
            wanted.tell(f"online-kmle: {label(overlap)} done")
        write_summary(out / "online-kmle.md", results, "squared_error")
        write_summary(out / "online-kmle-divergence.md", results, "divergence")
        write_lost(out / "online-kmle-lost.md", results)
        draw(
            out / "online-kmle.png",
            results,
            f"N(0, 1) and another: median and quartiles of {reps} replications",
        )
        write_times(out / "online-kmle-time.md", min(n, TIMED))
        wanted.tell("online-kmle: times done")
        template = two_gaussians(SHOWN)
        animate(out / "online-kmle.gif", template, stream_of(template, n, 0))


def label(overlap: tuple[float, float]) -> str:
    """The second component; the first is N(0, 1)."""
    mean, deviation = overlap
    return f"N({mean:g}, {deviation:g}²)"


def two_gaussians(overlap: tuple[float, float]) -> Template:
    """0.5 N(0, 1) + 0.5 N(mean, deviation^2)."""
    mean, deviation = overlap
    return gaussian([0.5, 0.5], [[0.0], [mean]], [[[1.0]], [[deviation**2]]])


def stream_of(template: Template, n: int, rep: int) -> Stream:
    """Rows of one replication and the start that all methods share."""
    rng = np.random.default_rng([n, rep])
    x, _ = template.model.sample(template.params, n, rng)
    return Stream.begin(Threads(template.model), Rows(x), rng, rep)


def replicate(overlap: tuple[float, float], n: int, rep: int) -> list[Result]:
    """All methods on one stream, looked at on the way."""
    template = two_gaussians(overlap)
    stream = stream_of(template, n, rep)
    results = list[Result]()
    for method, step, marks, path in paths(stream):
        common = {"overlap": label(overlap), "replication": rep, "method": method, "step": step}
        for rows, params in zip(marks, path, strict=True):
            measured = {
                "rows": rows,
                "squared_error": squared_error(template, params),
                "divergence": divergence(stream.backend, template, params),
                "lightest": float(params.weights.min()),
            }
            results.append({**common, **measured})
    return results


def paths(stream: Stream) -> Iterator[tuple[str, str, list[int], Iterator[MixtureParams]]]:
    """Methods, their step sizes, and the parameters they hold after so many rows."""
    marks = streaming.log_spaced(len(stream.rows))
    few = streaming.log_spaced(min(len(stream.rows), MOST_FOR_BATCH), 2)
    for method, batch_learner in BATCH.items():
        yield method, "batch", few, stream.batch(batch_learner, few)
    for step, schedule in SCHEDULES.items():
        for method, learner in streaming.online_learners(schedule).items():
            yield method, step, marks, stream.online(learner, marks)


def curves(results: list[Result], overlap: str, measure: str, step: str) -> dict[str, Curve]:
    """For every method the values of all replications (reps, marks) against rows."""
    values: dict[str, dict[int, list[float]]] = {}
    for r in results:
        if r["overlap"] == overlap and r["step"] in ("batch", step):
            values.setdefault(r["method"], {}).setdefault(r["rows"], []).append(r[measure])
    return {
        method: (np.array(list(by_rows), dtype=np.float64), np.array(list(by_rows.values())).T)
        for method, by_rows in values.items()
    }


def slope(curve: Curve) -> float:
    """d log(error) / d log(rows) over the last two decades: -1 is efficient, 0 is biased."""
    rows, values = curve
    last = rows >= 0.01 * rows[-1]
    logs = np.log(np.maximum(values[:, last], 1e-300)).mean(axis=0)
    return float(np.polyfit(np.log(rows[last]), logs, 1)[0])


def draw(path: Path, results: list[Result], title: str) -> None:
    """A column of panels for every overlap."""
    overlaps = [label(o) for o in OVERLAPS]
    panels = {
        (f"{MEASURES[measure]}, steps {step}", overlap): curves(results, overlap, measure, step)
        for (measure, step), overlap in product(PANELS, overlaps)
    }
    draw_curves(path, title, panels)


def write_summary(path: Path, results: list[Result], measure: str) -> None:
    """Median at the end of the stream; in brackets the slope of the error's geometric mean."""

    def cell(curve: Curve) -> str:
        return f"{np.median(curve[1][:, -1]):.1e} ({slope(curve):+.2f})"

    write_by_overlap(path, results, measure, cell)


def write_lost(path: Path, results: list[Result]) -> None:
    """In how many replications a component was lost by the end of the stream."""

    def cell(curve: Curve) -> str:
        lightest = curve[1][:, -1]
        return f"{int((lightest < LOST).sum())} of {len(lightest)}"

    write_by_overlap(path, results, "lightest", cell)


def write_by_overlap(
    path: Path, results: list[Result], measure: str, cell: Callable[[Curve], str]
) -> None:
    """A line per method and step size, a column per overlap."""
    overlaps = [label(o) for o in OVERLAPS]
    lines: dict[tuple[str, str, str], dict[str, str]] = {}
    for step, overlap in product(SCHEDULES, overlaps):
        for method, curve in curves(results, overlap, measure, step).items():
            key = (method, "" if method in BATCH else step, f"{int(curve[0][-1]):,}")
            # batch methods come back with every step size: the same again
            lines.setdefault(key, {})[overlap] = cell(curve)
    rows = [[*key, *cells.values()] for key, cells in lines.items()]
    write_markdown(path, ["method", "steps", "rows", *overlaps], rows)


def write_times(path: Path, n: int) -> None:
    """Microseconds of CPU time of one update, by number of components and columns."""
    times = [timed(k, d, n) for k, d in SIZES]
    rows = [[name, *(f"{1e6 * t[name]:.3g}" for t in times)] for name in times[0]]
    write_markdown(path, ["method", *(f"K = {k}, d = {d}" for k, d in SIZES)], rows)


def timed(k: int, d: int, n: int) -> dict[str, float]:
    """Seconds of an update on K overlapping Gaussians in d columns."""
    means = np.random.default_rng(0).normal(scale=3.0 / np.sqrt(d), size=(k, d))
    template = gaussian(np.full(k, 1.0 / k), means, np.broadcast_to(np.eye(d), (k, d, d)))
    return stream_of(template, n, 0).seconds_per_update(ROUNDS)
