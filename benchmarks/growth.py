"""How processor time and memory grow with rows, columns, components and workers.

    python benchmarks/growth.py [--learners em,auto] [--rounds 3] [--picture FILE] [--most 1.0]

Rows are K full Gaussians in d columns, along each axis from the point n = 20,000, d = 8, K = 8. A
fit begins with the true parameters, so that no start is searched, and its time is that of one pass:
the processor time of the fit, divided by the number of times each row was read; the best of
several. Memory is the peak of what NumPy has allocated during a fit, without the rows. Slopes are
those of the logarithms over the upper half of an axis, one for doubling with doubling. Beside them
stands what theory gives: time n K d^2 and memory K d^2, for each row K numbers where a learner
keeps responsibilities, and no K in the time of "truncated-em". Workers are threads of Dask in this
process, whose total time must not grow. `--most 0.25` ends the axes at a quarter of their lengths.
"""

from __future__ import annotations

import argparse
import gc
import time
import tracemalloc
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mixfold import Mixture
from mixfold.families.gaussian import Gaussian
from mixfold.models.mixture_model import MixtureParams

BASE = {"n": 20_000, "d": 8, "K": 8}
AXES = {
    "n": [5_000, 20_000, 80_000, 320_000],
    "d": [2, 4, 8, 16, 32, 64],
    "K": [2, 4, 8, 16, 32, 64, 128],
    "workers": [1, 2, 4, 8],
}
PASSES = {"em": 3, "k-mle": 3, "incremental-em": 3, "mini-batch-em": 3, "truncated-em": 3}
LEARNERS = [
    "em",
    "auto",
    "mini-batch-em",
    "online-em",
    "incremental-em",
    "moment-matching",
    "online-vb",
    "k-mle",
    "truncated-em",
]
KEEPS_ROWS = ("incremental-em", "truncated-em")  # K numbers for each, or a few
SHARED = ("em", "auto", "mini-batch-em", "online-em", "moment-matching", "online-vb", "k-mle")
ROWS_OF_WORKERS = 80_000
MIB = 2**20

Points = dict[float, tuple[float, float]]  # seconds and bytes by size


def theory(learner: str, axis: str) -> tuple[float, float | None]:
    """The slopes that theory gives of time and memory."""
    if axis == "workers":
        return 0.0, None
    memory = {"n": 1.0 if learner in KEEPS_ROWS else 0.0, "d": 2.0, "K": 1.0}
    of_components = 0.0 if learner == "truncated-em" else 1.0
    return {"n": 1.0, "d": 2.0, "K": of_components}[axis], memory[axis]


def example(n: int, d: int, k: int) -> tuple[np.ndarray, MixtureParams]:
    """Rows of overlapping components, and their parameters."""
    rng, family = np.random.default_rng(0), Gaussian()
    params = MixtureParams(np.full(k, 1.0 / k), family.example(k, d, rng))
    return family.sample(params.components, rng.integers(k, size=n), rng), params


def fit_once(learner: str, x: Any, params: MixtureParams) -> Mixture:
    """A fit with as many passes as the learner is given here."""
    k, most = len(params.weights), PASSES.get(learner)
    model = Mixture("gaussian", k, learner=learner, init=params, max_iter=most, n_threads=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of components that end up at a limit
        return model.fit(x)


def seconds_per_pass(learner: str, x: Any, params: Any, rounds: int, n: int) -> float:
    """The least processor time of a pass."""
    found = list[float]()
    for _ in range(rounds):
        gc.collect()
        began = time.process_time()
        model = fit_once(learner, x, params)
        found.append((time.process_time() - began) * n / model.n_seen_)
    return min(found)


def peak_bytes(learner: str, x: np.ndarray, params: MixtureParams) -> float:
    """The peak of NumPy's memory during a fit."""
    gc.collect()
    tracemalloc.start()
    fit_once(learner, x, params)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return float(peak)


def along(learner: str, axis: str, sizes: Sequence[int], rounds: int) -> Points:
    """Time and memory at each size of an axis of the data."""
    found: Points = {}
    for size in sizes:
        at = {**BASE, axis: size}
        x, params = example(at["n"], at["d"], at["K"])
        fit_once(learner, x[: len(x) // 4], params)  # imports, and caches of the machine
        seconds = seconds_per_pass(learner, x, params, rounds, len(x))
        found[size] = seconds, peak_bytes(learner, x, params)
    return found


def with_workers(learner: str, sizes: Sequence[int], rounds: int) -> Points:
    """The processor time of all workers together."""
    import dask.array
    from distributed import Client, LocalCluster

    x, params = example(ROWS_OF_WORKERS, BASE["d"], BASE["K"])
    found: Points = {}
    for size in sizes:
        settings: dict[str, Any] = {"processes": False, "dashboard_address": None}
        with (
            LocalCluster(n_workers=size, threads_per_worker=1, **settings) as cluster,
            Client(cluster),
        ):
            rows = dask.array.from_array(x, chunks=(len(x) // 16, x.shape[1])).persist()
            fit_once(learner, rows, params)
            found[size] = seconds_per_pass(learner, rows, params, rounds, len(x)), float("nan")
    return found


def slope(points: Points, which: int) -> float:
    """The slope of the logarithms over the upper half of the sizes."""
    sizes = sorted(points)
    upper = sizes[(len(sizes) - 1) // 2 :]
    values = [points[size][which] for size in upper]
    return float(np.polyfit(np.log(upper), np.log(values), 1)[0])


def measured(
    learners: Sequence[str], rounds: int, most: float
) -> Iterator[tuple[str, str, Points]]:
    """Every learner along every axis."""
    for axis, sizes in AXES.items():
        kept = [size for size in sizes if size <= most * max(sizes)]
        for learner in learners:
            if axis != "workers":
                yield axis, learner, along(learner, axis, kept, rounds)
            elif learner in SHARED:
                yield axis, learner, with_workers(learner, kept, rounds)


def print_line(axis: str, learner: str, points: Points) -> None:
    """A line of the table."""
    time_theory, memory_theory = theory(learner, axis)
    low, high = min(points), max(points)
    span = f"{low:,} to {high:,}"
    seconds = f"{1e3 * points[low][0]:.3g} to {1e3 * points[high][0]:.3g}"
    memory, of_memory = "", ""
    if memory_theory is not None:
        memory = f"{points[low][1] / MIB:.2g} to {points[high][1] / MIB:.3g}"
        of_memory = f"{slope(points, 1):.2f} ({memory_theory:g})"
    parts = [axis, learner, span, seconds, f"{slope(points, 0):.2f} ({time_theory:g})"]
    print("| " + " | ".join([*parts, memory, of_memory]) + " |", flush=True)


def draw(found: dict[tuple[str, str], Points], path: Path) -> None:
    """Time above, memory below, a panel for each axis."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(
        2, len(AXES), figsize=(15, 7), layout="constrained", sharey="row", squeeze=False
    )
    for column, axis in enumerate(AXES):
        for which, row in enumerate(panels[:, column]):
            for i, learner in enumerate(LEARNERS):
                points = found.get((axis, learner))
                if points and not np.isnan(values := [p[which] for p in points.values()]).any():
                    scaled = np.array(values) * (1e3 if which == 0 else 1.0 / MIB)
                    row.loglog(list(points), scaled, f"C{i}o-", ms=4, label=learner)
            row.set_xlabel(axis)
        expected = theory("em", axis)[0]
        shown = [(axis, one) for one in LEARNERS if (axis, one) in found]
        if shown:
            sizes = np.array(sorted(found[shown[0]]), dtype=float)
            middle = np.median([1e3 * found[key][sizes[-1]][0] for key in shown])
            line = middle * (sizes / sizes[-1]) ** expected
            panels[0, column].loglog(sizes, line, "k--", lw=1, label="theory")
        for row in panels[:, column]:  # after all lines, which set ticks of their own
            row.set_xticks(AXES[axis], [f"{size:,}" for size in AXES[axis]])
            row.xaxis.set_minor_formatter("")
    panels[0, 0].set_ylabel("processor time of a pass, ms")
    panels[1, 0].set_ylabel("peak of NumPy's memory, MiB")
    panels[1, -1].axis("off")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    panels[1, -1].legend(handles[:-1], labels[:-1], loc="center", frameon=False)
    panels[1, -1].set_title("dashed: 1 in n and K, 2 in d, 0 in workers", y=0.0, fontsize=9)
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--learners", default=",".join(LEARNERS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most", type=float, default=1.0)
    parser.add_argument("--picture", type=Path)
    wanted = parser.parse_args()
    print("| axis | learner | sizes | ms of a pass | slope (theory) | MiB | slope (theory) |")
    print("|---|---|---|---|---|---|---|")
    found: dict[tuple[str, str], Points] = {}
    for axis, learner, points in measured(wanted.learners.split(","), wanted.rounds, wanted.most):
        found[axis, learner] = points
        print_line(axis, learner, points)
    if wanted.picture is not None:
        draw(found, wanted.picture)


if __name__ == "__main__":
    main()
