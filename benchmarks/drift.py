"""False alarms of `DriftAware` in streams that do not change, and how soon it detects shifts.

    python benchmarks/drift.py [ROWS]

ROWS, a million by default, is the length of the streams that do not change.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

import numpy as np

from mixfold import DriftAware, MiniBatchEM, Mixture
from mixfold.errors import LearningWarning

Stream = Callable[[np.random.Generator, int], np.ndarray]
CHANGE, AFTER = 50_000, 10_000


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

STREAMS: list[tuple[str, Stream, int, str | DriftAware]] = [
    ("three Gaussians", GAUSSIANS, 6, "drift-aware"),
    ("three Gaussians, MiniBatchEM(1024)", GAUSSIANS, 3, DriftAware(MiniBatchEM(1024))),
    ("three t distributions, 3 degrees of freedom", three(student(3.0)), 3, "drift-aware"),
    ("three t distributions, 2 degrees of freedom", three(student(2.0)), 3, "drift-aware"),
    ("three Cauchy distributions", three(student(1.0)), 3, "drift-aware"),
    ("three log-normal distributions, sigma 1.5", LOG_NORMAL, 3, "drift-aware"),
]


def drifts(rows: np.ndarray, learner: str | DriftAware, seed: int) -> list[int]:
    """The rows after which drift was detected."""
    model = Mixture("gaussian", 3, learner=learner, random_state=seed, n_threads=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LearningWarning)
        return [int(row) for row in model.partial_fit(rows).drifts_]


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    for name, stream, runs, learner in STREAMS:
        alarms = [
            len(drifts(stream(np.random.default_rng(seed), n), learner, seed))
            for seed in range(runs)
        ]
        print(f"{name}: alarms", *alarms, flush=True)
    for shift in (0.5, 1.0, 2.0, 4.0):
        found = []
        for seed in range(6):
            rows = GAUSSIANS(np.random.default_rng(seed), CHANGE + AFTER)
            rows[CHANGE:] += shift
            later = [row for row in drifts(rows, "drift-aware", seed) if row > CHANGE]
            found += [row - CHANGE for row in later[:1]]
        middle = f"{np.median(found):.0f} rows" if found else "none"
        print(f"shift {shift}: detected after {middle}, missed {6 - len(found)} of 6", flush=True)


if __name__ == "__main__":
    main()
