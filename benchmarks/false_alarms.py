"""Promised against realised false alarms of `AnomalyDetector`, on streams of normal rows.

    [MIXFOLD_DATA=FOLDER] python benchmarks/false_alarms.py {synthetic,real,fitted,time} [NAME]

NAME chooses the streams, of a million rows, or the sets whose names have it. Every row is scored
before it is learned, and rows without a threshold (the first 512) do not count. The number is the
realised rate over the promised one. With the folder, the normal rows of labelled sets come in their
own order, and elec2 in the order of time. "fitted" fits once to few rows and counts alarms in new
ones.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from mixfold import AnomalyDetector, Constant, Gaussian, Mixture, OnlineEM, Poisson, Product
from mixfold.core.learner import Learner
from mixfold.errors import LearningWarning
from mixfold.experiments.templates import read_table

RATES = (1e-2, 1e-3, 1e-4)
SEEDS = 1
Rows = Callable[[np.random.Generator, int, int], Any]
MIXED = Product({"a": Gaussian(), "b": Gaussian(), "c": Poisson(), "d": Poisson()})


def about_three(noise: Callable[[np.random.Generator, tuple[int, int]], np.ndarray]) -> Rows:
    """Noise about three points in four dimensions."""

    def rows(rng: np.random.Generator, first: int, n: int) -> np.ndarray:
        centres = np.random.default_rng(99).uniform(0.0, 10.0, size=(3, 4))
        return np.asarray(centres[rng.integers(3, size=n)] + noise(rng, (n, 4)))

    return rows


def mixed(rng: np.random.Generator, first: int, n: int) -> pd.DataFrame:
    """Two columns of numbers and two of counts, of two kinds of rows."""
    kind = rng.integers(2, size=(n, 1))
    counts = rng.poisson(2.0 + 6.0 * kind, (n, 2))
    return pd.DataFrame(np.hstack([rng.normal(size=(n, 2)) + 3 * kind, counts]), columns=[*"abcd"])


def drifting(rows: Rows, deviations: float) -> Rows:
    """Rows whose means move so many deviations in 100,000 rows."""

    def moved(rng: np.random.Generator, first: int, n: int) -> np.ndarray:
        steps = np.arange(first, first + n)[:, None] * (deviations / 1e5)
        return np.asarray(rows(rng, first, n) + steps)

    return moved


GAUSSIANS = about_three(lambda rng, shape: rng.normal(size=shape))
T3 = about_three(lambda rng, shape: rng.standard_t(3.0, size=shape))
CAUCHY = about_three(lambda rng, shape: rng.standard_cauchy(size=shape))
FAST: dict[str, Learner] = {
    "online EM": OnlineEM(batch_size=64),
    "forgetting": OnlineEM(batch_size=64, schedule=Constant(0.02)),
}
LEARNERS: dict[str, str | Learner] = {**FAST, "auto": "auto"}


def gaussians(k: int, learner: str | Learner) -> Mixture:
    return Mixture("gaussian", k, learner=learner, random_state=0, n_threads=1)


def streams() -> Iterator[tuple[str, Rows, Mixture]]:
    """Names, rows and mixtures."""
    online, forgetting = LEARNERS["online EM"], LEARNERS["forgetting"]
    product = Mixture(MIXED, 2, learner=online, random_state=0, n_threads=1)
    moved, slower, heavy = drifting(GAUSSIANS, 1.0), drifting(GAUSSIANS, 0.1), drifting(T3, 1.0)
    yield "three Gaussians, K=3, online EM", GAUSSIANS, gaussians(3, online)
    yield "the same, forgetting", GAUSSIANS, gaussians(3, forgetting)
    yield "the same, K=1, online EM", GAUSSIANS, gaussians(1, online)
    yield "three t with 3 degrees of freedom, K=3, online EM", T3, gaussians(3, online)
    yield "three Cauchy, K=3, online EM", CAUCHY, gaussians(3, online)
    yield "numbers and counts, K=2, online EM", mixed, product
    yield "Gaussians that move by 1 in 100,000 rows, forgetting", moved, gaussians(3, forgetting)
    yield "the same, online EM", moved, gaussians(3, online)
    yield "the same, by 0.1, forgetting", slower, gaussians(3, forgetting)
    yield "t that move by 1 in 100,000 rows, forgetting", heavy, gaussians(3, forgetting)
    yield "three Gaussians, K=3, auto", GAUSSIANS, gaussians(3, "auto")
    yield "Gaussians that move by 1 in 100,000 rows, auto", moved, gaussians(3, "auto")


def blocks(rows: Rows, seed: int, n: int) -> Iterator[Any]:
    """The stream in blocks."""
    rng = np.random.default_rng(seed)
    for first in range(0, n, 8192):
        yield rows(rng, first, min(8192, n - first))


def realised(mixture: Mixture, rate: float, stream: Iterator[Any]) -> float:
    """The realised over the promised rate."""
    detector = AnomalyDetector(mixture, false_alarm_rate=rate)
    for block in stream:
        detector.partial_fit(block)
    return detector.n_alarms_ / (rate * detector.n_scored_)


def synthetic(wanted: str) -> None:
    n = 1_000_000
    print(f"| stream of {n:,} rows | " + " | ".join(f"{rate:g}" for rate in RATES) + " |")
    print("|---|" + "---|" * len(RATES), flush=True)
    for name, rows, mixture in streams():
        if wanted not in name:
            continue
        cells = []
        for rate in RATES:
            found = [realised(mixture, rate, blocks(rows, seed, n)) for seed in range(SEEDS)]
            cells.append(" ".join(f"{ratio:.2f}" for ratio in found))
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def real_rows(name: str) -> np.ndarray:
    """The numbers of a set, without rows that are labelled as anomalies."""
    table = read_table(name, None).to_pandas()
    if "anomaly" in table:
        table = table[table["anomaly"] == 0]
    if name == "magic":
        table = table[table["class"] == "g"]
    left = [one for one in ("anomaly", "class", "date", "day", "period") if one in table]
    return np.ascontiguousarray(table.drop(columns=left).to_numpy(dtype=np.float64))


def real(wanted: str) -> None:
    print("| rows | learner | " + " | ".join(f"{rate:g}" for rate in RATES) + " |")
    print("|---|---|" + "---|" * len(RATES), flush=True)
    for name in ("kdd99_http", "kdd99_smtp", "covertype_2vs4", "magic", "elec2"):
        if wanted not in name:
            continue
        x = real_rows(name)
        for label, learner in FAST.items():
            found = [realised(gaussians(5, learner), rate, iter([x])) for rate in RATES]
            cells = " | ".join(f"{ratio:.2f}" for ratio in found)
            print(f"| {name}, {len(x):,} | {label} | {cells} |", flush=True)


def fitted() -> None:
    """Thresholds of `fit`: alarms in 200,000 new rows over the promised number, ten fits."""
    print("| rows of the fit | K | " + " | ".join(f"{rate:g}" for rate in RATES) + " |")
    print("|---|---|" + "---|" * len(RATES), flush=True)
    for n, k in ((200, 3), (1000, 3), (1000, 10), (10_000, 3), (100_000, 3)):
        cells = []
        for rate in RATES:
            found = []
            for seed in range(10):
                rng = np.random.default_rng(seed)
                detector = AnomalyDetector(gaussians(k, "auto"), false_alarm_rate=rate)
                detector.fit(GAUSSIANS(rng, 0, n))
                found.append((detector.predict(GAUSSIANS(rng, 0, 200_000)) < 0).mean() / rate)
            cells.append(f"{np.mean(found):.2f} ({min(found):.2f} to {max(found):.2f})")
        print(f"| {n:,} | {k} | " + " | ".join(cells) + " |", flush=True)


def times() -> None:
    """Microseconds of processor time for a row, after 50,000 rows."""
    print("| learner | process_one | score_one | partial_fit |\n|---|---|---|---|", flush=True)
    x = GAUSSIANS(np.random.default_rng(0), 0, 100_000)
    for label, learner in LEARNERS.items():
        detector = AnomalyDetector(gaussians(3, learner), false_alarm_rate=1e-3).partial_fit(
            x[:50_000]
        )
        cells = []
        for work in (detector.process_one, detector.score_one):
            began = time.process_time()
            for row in x[50_000:70_000]:
                work(row)
            cells.append((time.process_time() - began) / 20_000)
        began = time.process_time()
        detector.partial_fit(x[70_000:])
        cells.append((time.process_time() - began) / 30_000)
        print(
            f"| {label} | " + " | ".join(f"{1e6 * cell:.1f}" for cell in cells) + " |", flush=True
        )


def main() -> None:
    warnings.simplefilter("ignore", LearningWarning)
    part = sys.argv[1] if len(sys.argv) > 1 else "synthetic"
    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    works: dict[str, Callable[[], None]] = {
        "synthetic": lambda: synthetic(wanted),
        "real": lambda: real(wanted),
        "fitted": fitted,
        "time": times,
    }
    works[part]()


if __name__ == "__main__":
    main()
