"""Bayesian moment matching on many rows, alone and on shards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from mixfold.core.errors import SourceError
from mixfold.core.rows import Array
from mixfold.experiments._held_out import (
    SCALES,
    Measured,
    cells,
    measured_sets,
    over_splits,
    replicate,
    split,
)
from mixfold.experiments._labelled import standardised
from mixfold.experiments._race import OBMM, Method, Race, distributed, methods, one_pass, single
from mixfold.experiments._writing import draw_lines, write_csv, write_markdown
from mixfold.experiments.templates import gaussian
from mixfold.experiments.wanted import Wanted
from mixfold.learners.auto import Auto
from mixfold.learners.moment_matching import MomentMatching

MAGIC, FRAMES = "magic", "spoken_arabic_digit"
# oVB, oEM, oBMM, oDMM of MAGIC
PUBLISHED = (-32.9, -33.4, -32.1, -35.4)
# columns and published seconds of oVB, oEM, oBMM and oDMM; rows of these shapes are simulated
SHAPES: dict[str, tuple[int, tuple[float, ...]]] = {
    "Heterogeneity's shape": (16, (87.3, 77.3, 81.7, 17.5)),
    "MiniBooNE's shape": (50, (57.6, 48.6, 12.1, 2.3)),
    "Year MSD's shape": (91, (473.7, 336.5, 108.2, 21.2)),
}
MAGIC_SECONDS = (8.1, 7.3, 6.8, 1.4)
PAPER = ("oVB, paper", "oEM, paper", "oBMM, paper", "oDMM, paper")
TIMED, ROUNDS = 10, 3
# of shards: numbers of components, candidates for the start, fractions of the rows that one
# learner reads for all
SIZES, STARTS, COMMON = (
    (5, 10),
    {"k-means++": 1, "best of 4": MomentMatching.starts},
    (0, 0.02, 0.1),
)


class BmmTable2:
    """Table 2 of Jaini and Poupart: likelihood on MAGIC, and running times."""

    n = 50_000
    reps = 10

    def run(self, wanted: Wanted) -> None:
        """Likelihoods, times and what shards cost, on at most `n` rows each, go to `out`."""
        from threadpoolctl import threadpool_limits

        reps, n = wanted.reps or self.reps, wanted.n or self.n
        out = wanted.folder()

        def done(part: str) -> None:
            wanted.tell(f"bmm-table2: {part} done")

        found = measured_sets((MAGIC, FRAMES), wanted.data, n)
        sets = {measured.name: measured for measured in found}
        if MAGIC not in sets:
            raise SourceError(f"the data folder has no {MAGIC}.parquet, which this study needs")
        with threadpool_limits(1):
            write_likelihoods(out, sets[MAGIC], reps)
            done("likelihood")
            write_lost(out / "bmm-table2-shards.md", list(sets.values()), reps)
            done("shards")
            write_times(out, sets[MAGIC], n)
            done("time")


def write_likelihoods(out: Path, magic: Measured, reps: int) -> None:
    """Held-out likelihood on splits of MAGIC, as in table 1."""
    pairs = product(SCALES, range(reps))
    results = [r for scale, rep in pairs for r in replicate(magic, scale, rep, methods())]
    write_csv(out / "bmm-table2.csv", results)
    lines = [
        [scale, *cells(of), *(f"{p}" if scale == "raw" else "" for p in PUBLISHED)]
        for (_, scale), of in over_splits(results, "log_likelihood").items()
    ]
    write_markdown(out / "bmm-table2.md", ["columns", *methods(), *PAPER], lines)


# what shards cost


def write_lost(path: Path, sets: Sequence[Measured], reps: int) -> None:
    """Fraction of oBMM's gain over a single Gaussian that shards lose: the mean and the worst."""
    lines = []
    for measured, k, start in product(sets, SIZES, STARTS):
        lost = np.array([lost_by_shards(measured.x, k, STARTS[start], rep) for rep in range(reps)])
        found = [f"{m:+.1%} ({w:+.1%})" for m, w in zip(lost.mean(0), lost.max(0), strict=True)]
        lines.append([f"{measured.name} ({len(measured.x):,})", f"{k}", start, *found])
    header = ["data set (rows)", "K", "start", *(f"{c:.0%} in common" for c in COMMON)]
    write_markdown(path, header, lines)


def lost_by_shards(x: Array, k: int, candidates: int, rep: int) -> list[float]:
    """For every fraction that is read in common, what part of the gain is lost."""
    learned, judged = standardised(*split(x, rep))

    def reached(method: Method, race: Race) -> float:
        return race.held_out(method(race)[0], judged)

    base = reached(single(Auto()), Race.begin(learned, 1, rep))
    race = Race.begin(learned, k, rep, candidates)
    whole = reached(single(MomentMatching()), race)
    return [(whole - reached(distributed(c), race)) / (whole - base) for c in COMMON]


# time


def write_times(out: Path, magic: Measured, n: int) -> None:
    """Seconds, and in brackets those of oBMM = 1, beside the published ones."""
    timed = {f"{name} ({len(x):,} x {x.shape[1]})": (x, p) for name, x, p in time_sets(magic, n)}
    seconds = {name: least_seconds(x) for name, (x, _) in timed.items()}
    lines = [
        [name, *relative(found, found[OBMM]), *relative(published, published["oBMM, paper"])]
        for name, found in seconds.items()
        for published in [dict(zip(PAPER, timed[name][1], strict=True))]
    ]
    write_markdown(out / "bmm-table2-time.md", ["rows", *one_pass(), *PAPER], lines)
    columns = [x.shape[1] for x, _ in timed.values()]
    per_row = {
        method: (columns, [1e6 * seconds[s][method] / len(timed[s][0]) for s in timed])
        for method in one_pass()
    }
    title = f"CPU time of a row, K = {TIMED}"
    draw_lines(out / "bmm-table2.png", title, ("columns", "microseconds"), per_row)


def time_sets(magic: Measured, n: int) -> Iterator[tuple[str, Array, tuple[float, ...]]]:
    """Rows to be timed on and the published seconds."""
    yield "MAGIC", standardised(magic.x, magic.x)[0], MAGIC_SECONDS
    for name, (d, published) in SHAPES.items():
        yield name, simulated(d, n), published


def simulated(d: int, n: int) -> Array:
    """Rows of ten Gaussians in d columns that overlap, so that no method can leave any out."""
    rng = np.random.default_rng(d)
    means = rng.normal(scale=3.0 / np.sqrt(d), size=(TIMED, d))
    covariances = np.broadcast_to(np.eye(d), (TIMED, d, d))
    template = gaussian(np.full(TIMED, 1.0 / TIMED), means, covariances)
    return template.model.sample(template.params, n, rng)[0]


def least_seconds(x: Array) -> dict[str, float]:
    """CPU time of every method of one pass, measured in turns."""
    race, best = Race.begin(x, TIMED, 0), dict[str, float]()
    for _ in range(ROUNDS):
        for name, method in one_pass().items():
            best[name] = min(method(race)[1], best.get(name, np.inf))
    return best


def relative(seconds: Mapping[str, Any], base: float) -> list[str]:
    """Seconds and how many times the base they are."""
    return [f"{spent:.3g} ({spent / base:.2f})" for spent in seconds.values()]
