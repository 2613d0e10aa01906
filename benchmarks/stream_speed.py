"""Rows per second of the default behind `partial_fit`, and of online EM.

    python benchmarks/stream_speed.py [ROUNDS]

Each makes one pass in blocks of 10,000 rows from nothing, in turn, on one thread, after which the
parameters are read, since the default computes them then; the best of ROUNDS, 4 by default, counts.
`learn_one` is timed over 5,000 rows after 20,000 have been learned, without reading parameters, and
with means read after every row.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

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
    model, rows = after_first_rows(learner, shape, k, x)
    began = time.perf_counter()
    for row in rows:
        model.learn_one(row)
    return time.perf_counter() - began


def read_row_by_row(learner: str, shape: str, k: int, x: np.ndarray) -> float:
    """The same, with means read after every row; they have been read once before."""
    model, rows = after_first_rows(learner, shape, k, x)
    assert model.means_ is not None
    began = time.perf_counter()
    for row in rows:
        assert model.learn_one(row).means_ is not None
    return time.perf_counter() - began


def after_first_rows(
    learner: str, shape: str, k: int, x: np.ndarray
) -> tuple[Any, list[np.ndarray]]:
    """A stream that has learned the first rows, and the next ones."""
    model = streamed(mixture(shape, k, 0, learner=learner), x[:LEARNED], BLOCK)
    return model, list(x[LEARNED : LEARNED + SINGLE_ROWS])


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
    single = ("learn_one, us", "online EM, us", "with means read, us", "online EM, us")
    print(heading("work", *speed, *single))
    for n, d, k, shape in WORK:
        x = clusters(n, d, k)
        ours, theirs = alternate(one_pass, shape, k, x, rounds)
        rows = [alternate(one, shape, k, x, rounds) for one in (row_by_row, read_row_by_row)]
        each = [f"{1e6 * seconds / SINGLE_ROWS:.1f}" for pair in rows for seconds in pair]
        print(
            f"| n={n:,} d={d} K={k} {shape} | {n / ours:,.0f} | {n / theirs:,.0f} "
            f"| {theirs / ours:.2f} | {' | '.join(each)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
