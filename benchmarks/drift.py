"""False alarms of `DriftAware` in streams that do not change, and how soon it detects changes.

    python benchmarks/drift.py [ROWS]

ROWS, a million by default, is the length of the streams that do not change. All runs are made with
`recent_rows=0`, which does not change what is detected, and takes less time.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from _tables import heading
from mixfold import DriftAware, MiniBatchEM, Mixture, PageHinkley, RobustCusum, SelfStartingCusum
from mixfold.errors import LearningWarning
from river import drift as river

Stream = Callable[[np.random.Generator, int], np.ndarray]
CHANGE, AFTER = 50_000, 10_000
RUNS = 6


def three(noise: Stream) -> Stream:
    """Noise about three points, which lie anywhere in a square of side 10."""

    def rows(rng: np.random.Generator, n: int) -> np.ndarray:
        centres = rng.uniform(0.0, 10.0, size=(3, 2))
        return np.asarray(noise(rng, n) + centres[rng.integers(3, size=n)])

    return rows


def student(freedom: float) -> Stream:
    return lambda rng, n: np.asarray(rng.standard_t(freedom, size=(n, 2)))


GAUSSIANS = three(lambda rng, n: np.asarray(rng.normal(size=(n, 2))))
LOG_NORMAL = three(lambda rng, n: np.asarray(rng.lognormal(sigma=1.5, size=(n, 2))))

STREAMS: dict[str, Stream] = {
    "three Gaussians": GAUSSIANS,
    "three t distributions, 3 degrees of freedom": three(student(3.0)),
    "three t distributions, 2 degrees of freedom": three(student(2.0)),
    "three Cauchy distributions": three(student(1.0)),
    "three log-normal distributions, sigma 1.5": LOG_NORMAL,
}
DETECTORS: dict[str, Any] = {
    "SelfStartingCusum()": SelfStartingCusum(),
    "RobustCusum()": RobustCusum(),
    'PageHinkley(threshold=2.0, mode="down")': PageHinkley(threshold=2.0, mode="down"),
    "river.drift.ADWIN()": river.ADWIN(),  # type: ignore[no-untyped-call]
    "river.drift.KSWIN(alpha=1e-5)": river.KSWIN(alpha=1e-5, seed=0),
}


def drifts(rows: np.ndarray, learner: DriftAware, seed: int) -> list[int]:
    """The rows after which drift was detected."""
    model = Mixture("gaussian", 3, learner=learner, random_state=seed, n_threads=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LearningWarning)
        return [int(row) for row in model.partial_fit(rows).drifts_]


def alarms(stream: Stream, n: int, learner: DriftAware, runs: int) -> str:
    """The number of alarms in each run of a stream that does not change."""
    found = [drifts(stream(np.random.default_rng(i), n), learner, i) for i in range(runs)]
    return " ".join(str(len(rows)) for rows in found)


def delays(
    stream: Stream, change: Callable[[np.ndarray], np.ndarray], learner: DriftAware
) -> tuple[str, int]:
    """Rows from the change to the first alarm, as their median, and in how many runs none came."""
    found = []
    for seed in range(RUNS):
        rows = stream(np.random.default_rng(seed), CHANGE + AFTER)
        rows[CHANGE:] = change(rows[CHANGE:])
        later = [row for row in drifts(rows, learner, seed) if row > CHANGE]
        found += [row - CHANGE for row in later[:1]]
    return f"{np.median(found):.0f}" if found else "", RUNS - len(found)


def shifted(rows: np.ndarray, shift: float) -> np.ndarray:
    return np.asarray(rows + shift)


def widened(rows: np.ndarray, factor: float) -> np.ndarray:
    """With more noise in one column, so that standard deviations are multiplied by the factor."""
    noise = np.random.default_rng(0).normal(scale=np.sqrt(factor**2 - 1.0), size=len(rows))
    return np.asarray(rows + noise[:, None] * [1.0, 0.0])


def thinned(rows: np.ndarray, share: float) -> np.ndarray:
    """Rows in whose place others come: those that lie lowest are fewer by this share."""
    low = rows[:, 0] < np.quantile(rows[:, 0], 0.3)
    rng = np.random.default_rng(0)
    gone = low & (rng.random(len(rows)) < share)
    after = rows.copy()
    after[gone] = rng.choice(rows[~low], gone.sum())
    return after


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    plain = DriftAware(recent_rows=0)
    print(heading("rows that do not change, from", "alarms in each run"))
    for name, stream in STREAMS.items():
        print(f"| {name} | {alarms(stream, n, plain, RUNS)} |", flush=True)
    batches = DriftAware(MiniBatchEM(1024), recent_rows=0)
    print(f"| three Gaussians, MiniBatchEM(1024) | {alarms(GAUSSIANS, n, batches, 3)} |")
    often = DriftAware(detector=SelfStartingCusum(1e-3), recent_rows=0)
    for name, stream in STREAMS.items():
        print(f"| {name}, false_alarm_rate=1e-3 | {alarms(stream, n, often, 3)} |", flush=True)
    print("\n" + heading("rows from", "change", "rows until detection", f"missed of {RUNS}"))
    for name, stream in STREAMS.items():
        for shift in (0.25, 0.5, 1.0, 2.0, 4.0):
            shown = " | ".join(map(str, delays(stream, partial(shifted, shift=shift), plain)))
            print(f"| {name} | shift by {shift} | {shown} |", flush=True)
    changes = {
        "deviations in one column times 1.1": partial(widened, factor=1.1),
        "deviations in one column times 1.3": partial(widened, factor=1.3),
        "a third of the lowest 30% come elsewhere": partial(thinned, share=1 / 3),
    }
    for name, change in changes.items():
        shown = " | ".join(map(str, delays(GAUSSIANS, change, plain)))
        print(f"| three Gaussians | {name} | {shown} |", flush=True)
    print("\n" + heading("detector", "alarms in each run", *(f"shift {s}" for s in (0.5, 1, 2, 4))))
    for name, detector in DETECTORS.items():
        learner = DriftAware(detector=detector, recent_rows=0)
        found = [delays(GAUSSIANS, partial(shifted, shift=s), learner) for s in (0.5, 1, 2, 4)]
        cells = " | ".join(f"{rows or 'none'} ({missed} missed)" for rows, missed in found)
        print(f"| {name} | {alarms(GAUSSIANS, n, learner, 3)} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
