"""Rows per second of the default behind `partial_fit`, and of online EM.

    python benchmarks/stream_speed.py [--rounds R] [--processor] [--passes-only] [--work ...]

Each makes one pass in blocks of 10,000 rows from nothing, in turn, on one thread, after which the
parameters are read, since the default computes them then; the best of the rounds counts.
`--processor` measures processor time, for a machine with other work.
`learn_one` is timed over 5,000 rows after 20,000 have been learned, without reading parameters, and
with means read after every row.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from _tables import heading, mixture, streamed
from _timing import best_alternating

Clock = Callable[[], float]
Work = tuple[int, int, int, str]
BLOCK, LEARNED, SINGLE_ROWS = 10_000, 20_000, 5000
LEARNERS = ("auto", "online-em")
WORK: list[Work] = [
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


def one_pass(clock: Clock, learner: str, shape: str, k: int, x: np.ndarray) -> float:
    """Seconds of a pass, parameters included."""
    began = clock()
    assert streamed(mixture(shape, k, 0, learner=learner), x, BLOCK).params_ is not None
    return clock() - began


def row_by_row(clock: Clock, learner: str, shape: str, k: int, x: np.ndarray) -> float:
    """Seconds of `learn_one` for each of the rows after the first ones."""
    model, rows = after_first_rows(learner, shape, k, x)
    began = clock()
    for row in rows:
        model.learn_one(row)
    return clock() - began


def read_row_by_row(clock: Clock, learner: str, shape: str, k: int, x: np.ndarray) -> float:
    """The same, with means read after every row; they have been read once before."""
    model, rows = after_first_rows(learner, shape, k, x)
    assert model.means_ is not None
    began = clock()
    for row in rows:
        assert model.learn_one(row).means_ is not None
    return clock() - began


def after_first_rows(
    learner: str, shape: str, k: int, x: np.ndarray
) -> tuple[Any, list[np.ndarray]]:
    """A stream that has learned the first rows, and the next ones."""
    model = streamed(mixture(shape, k, 0, learner=learner), x[:LEARNED], BLOCK)
    return model, list(x[LEARNED : LEARNED + SINGLE_ROWS])


def alternate(
    work: Callable[..., float], clock: Clock, shape: str, k: int, x: np.ndarray, rounds: int
) -> tuple[float, float]:
    """Seconds of the default and of online EM."""
    rivals: dict[str, Callable[[], object]] = {
        learner: partial(work, clock, learner, shape, k, x) for learner in LEARNERS
    }
    best = best_alternating(rivals, rounds)
    return best["auto"], best["online-em"]


def work(text: str) -> Work:
    """Rows, columns, components and shape, from a text such as 50000,16,12,full."""
    n, d, k, shape = text.split(",")
    return int(n), int(d), int(k), shape


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=4, help="passes of each, in turn")
    parser.add_argument("--processor", action="store_true", help="processor time, not wall time")
    parser.add_argument("--work", type=work, nargs="+", default=WORK, help="what is timed")
    parser.add_argument("--passes-only", action="store_true", help="without single rows")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    threadpool_limits(1)  # of linear algebra, whose threads wait busily
    rounds, clock = given.rounds, time.process_time if given.processor else time.perf_counter
    singles = () if given.passes_only else (row_by_row, read_row_by_row)
    speed = ("default, rows/s", "online EM, rows/s", "ratio (wanted 0.25)")
    single = ("learn_one, us", "online EM, us", "with means read, us", "online EM, us")
    print(heading("work", *speed, *(() if given.passes_only else single)))
    for n, d, k, shape in given.work:
        x = clusters(n, d, k)
        ours, theirs = alternate(one_pass, clock, shape, k, x, rounds)
        rows = [alternate(one, clock, shape, k, x, rounds) for one in singles]
        each = [f"{1e6 * seconds / SINGLE_ROWS:.1f}" for pair in rows for seconds in pair]
        print(
            f"| n={n:,} d={d} K={k} {shape} | {n / ours:,.0f} | {n / theirs:,.0f} "
            f"| {theirs / ours:.2f} | {' | '.join([*each, ''])}".rstrip(),
            flush=True,
        )


if __name__ == "__main__":
    main()
