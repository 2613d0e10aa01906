"""How many rows EM and its incremental forms need, as the data grow."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from mixfold.backends.threads import Threads
from mixfold.core.learner import Learner
from mixfold.core.rows import Array, Rows
from mixfold.experiments._means import backend, first_mean, maximum, simulate, start
from mixfold.experiments._writing import draw_lines, write_csv, write_markdown
from mixfold.experiments.wanted import Wanted
from mixfold.fitting.loop import iter_fits
from mixfold.learners.em import EM
from mixfold.learners.fast_incremental_em import FastIncrementalEM
from mixfold.learners.incremental_em import IncrementalEM
from mixfold.learners.online_em import OnlineEM
from mixfold.learners.variance_reduced_em import VarianceReducedEM

PRECISION = 1e-3
MOST_PASSES = 20
SIZES = (1000, 3000, 10_000, 30_000, 101_000)
PUBLISHED = {"EM": 909_000, "iEM": 352_944, "fiEM": 18_600, "oEM-vr": 15_664}
# whether the first pass only makes the reference, which the published counts leave out
FILLS = {"iEM", "fiEM", "oEM-vr"}

Result = dict[str, Any]


def methods() -> dict[str, tuple[Learner, int]]:
    """Every method, and the number of rows between tests for convergence."""
    return {
        "EM": (EM(tol=0.0, max_iter=MOST_PASSES), 0),
        "iEM": (IncrementalEM(tol=0.0, max_iter=MOST_PASSES), 100),
        "online EM": (OnlineEM(warmup=0, max_iter=MOST_PASSES), 20),
        "oEM-vr": (VarianceReducedEM(max_iter=MOST_PASSES), 20),
        "fiEM": (FastIncrementalEM(max_iter=MOST_PASSES), 20),
    }


class GmmRates:
    """Rows until the squared error of a mean is below 1e-3 for the first time."""

    reps = 5

    def run(self, wanted: Wanted) -> None:
        """Run all replications for sizes up to `n`; results go to the folder `out`."""
        most = wanted.n or SIZES[-1]
        sizes = [size for size in SIZES if size <= most] or [most]
        out = wanted.folder()
        results = list[Result]()
        for size in sizes:
            for rep in range(wanted.reps or self.reps):
                results += replicate(size, rep)
            write_csv(out / "gmm-rates.csv", results)
            wanted.tell(f"gmm-rates: n = {size:,}")
        write_summary(out / "gmm-rates.md", results, sizes)
        lines = {name: (sizes, medians(results, name, sizes, "rows")) for name in methods()}
        draw_lines(
            out / "gmm-rates.png",
            "Rows until the squared error is below 0.001, all passes counted",
            ("rows of data", "rows read"),
            lines,
        )


def replicate(n: int, rep: int) -> list[Result]:
    """All methods on the same rows from the same start."""
    x, bound = simulate(n, rep), backend()
    target = maximum(bound, x)
    results = []
    for name, (learner, stride) in methods().items():
        rows = rows_needed(bound, learner.resolve(n, 1, False), x, target, stride or n)
        results.append({"n": n, "replication": rep, "method": name, "rows": rows})
    return results


def rows_needed(bound: Threads, learner: Learner, x: Array, target: float, stride: int) -> float:
    """Rows read when the estimate first comes within the precision of `target`; NaN if never."""
    with closing(iter_fits(bound, learner, start(), Rows(x), stride)) as fits:
        for fit in fits:
            if (first_mean(bound, learner, fit.state) - target) ** 2 < PRECISION:
                return fit.rows_seen
    return float("nan")


def medians(results: list[Result], method: str, sizes: list[int], key: str) -> list[float]:
    """Median over replications for every size; no convergence counts as infinite."""
    found = []
    for size in sizes:
        values = [r[key] for r in results if r["method"] == method and r["n"] == size]
        found.append(float(np.median([np.inf if np.isnan(v) else v for v in values])))
    return found


def slope(sizes: list[int], rows: list[float]) -> float:
    """The power of n that the rows grow with."""
    if len(sizes) < 2 or not np.isfinite(rows).all() or min(rows) <= 0:
        return float("nan")
    return float(np.polyfit(np.log(sizes), np.log(rows), 1)[0])


def write_summary(path: Path, results: list[Result], sizes: list[int]) -> None:
    """Rows of every method and size, with and without the pass that fills, and the slopes."""
    rows = []
    for name in methods():
        counted = medians(results, name, sizes, "rows")
        rows.append([name, *map(_count, counted), f"{slope(sizes, counted):.2f}", ""])
        published = _count(PUBLISHED[name]) if name in PUBLISHED else ""
        if name in FILLS:
            after = [r - n for r, n in zip(counted, sizes, strict=True)]
            label = f"{name}, first pass not counted"
            rows.append([label, *map(_count, after), f"{slope(sizes, after):.2f}", published])
        else:
            rows[-1][-1] = published
    header = ["method", *(f"n = {n:,}" for n in sizes), "slope", "published, n = 101,000"]
    write_markdown(path, header, rows)


def _count(rows: float) -> str:
    return f"{rows:,.0f}" if np.isfinite(rows) else f"over {MOST_PASSES} passes"
