"""Rows per second of the default behind `partial_fit`, and of online EM.

    python benchmarks/stream_speed.py [ROUNDS]

Each makes one pass in blocks of 10,000 rows from nothing, in turn, on one thread, after which the
parameters are read, since the default computes them then; the best of ROUNDS, 4 by default, counts.
`learn_one` is timed over 5,000 rows after 20,000 have been learned, without reading parameters.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from _tables import heading, mixture, streamed
from _timing import best_alternating

BLOCK, LEARNED, SINGLE_ROWS = 10_000, 20_000, 5000
LEARNERS = ("auto", "online-em")
WORK = [
    (n, d, k, shape)
    for n in (100_000, 1_000_000)
    for d, k, shape in (
        (2, 3, "full"),
        (4, 3, "full"),
        (10, 8, "full"),
        (16, 10, "full"),
        (50, 10, "full"),
        (16, 10, "diag"),
    )
    if n * d <= 16_000_000
]


def clusters(n: int, d: int, k: int) -> np.ndarray:
    """Rows about k random points, some of which overlap."""
    rng = np.random.default_rng(0)
    centres = rng.uniform(-4.0, 4.0, size=(k, d))
    return np.asarray(centres[rng.integers(k, size=n)] + rng.normal(size=(n, d)))


def one_pass(learner: str, shape: str, k: int, x: np.ndarray) -> float:
    """Seconds of a pass, parameters included."""
    began = time.perf_counter()
    assert streamed(mixture(shape, k, 0, learner=learner), x, BLOCK).params_ is not None
    return time.perf_counter() - began


def row_by_row(learner: str, shape: str, k: int, x: np.ndarray) -> float:
    """Seconds of `learn_one` for each of the rows after the first ones."""
    model = streamed(mixture(shape, k, 0, learner=learner), x[:LEARNED], BLOCK)
    rows = list(x[LEARNED : LEARNED + SINGLE_ROWS])
    began = time.perf_counter()
    for row in rows:
        model.learn_one(row)
    return time.perf_counter() - began


def alternate(
    work: Callable[..., float | None], shape: str, k: int, x: np.ndarray, rounds: int
) -> tuple[float, float]:
    """Seconds of the default and of online EM."""
    rivals: dict[str, Callable[[], object]] = {
        learner: partial(work, learner, shape, k, x) for learner in LEARNERS
    }
    best = best_alternating(rivals, rounds)
    return best["auto"], best["online-em"]


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    speed = ("default, rows/s", "online EM, rows/s", "ratio (wanted 0.25)")
    print(heading("work", *speed, "learn_one, us", "online EM, us"))
    for n, d, k, shape in WORK:
        x = clusters(n, d, k)
        ours, theirs = alternate(one_pass, shape, k, x, rounds)
        rows = alternate(row_by_row, shape, k, x, rounds)
        each = [1e6 * seconds / SINGLE_ROWS for seconds in rows]
        print(
            f"| n={n:,} d={d} K={k} {shape} | {n / ours:,.0f} | {n / theirs:,.0f} "
            f"| {theirs / ours:.2f} | {each[0]:.1f} | {each[1]:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
