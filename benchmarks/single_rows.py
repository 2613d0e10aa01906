"""Microseconds of evaluating a single row, by the methods for rows and for arrays.

    python benchmarks/single_rows.py

Processor time with three components in four columns, on one thread; the best of several runs. A
dict has the columns of a table; those of the mixed table are two real columns, counts and a
category, and a hole is a column that is missing. The stream has learned 20,000 rows, and each of
30,000 later ones is scored and then learned.
"""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from _tables import heading
from mixfold import Gaussian, Mixture

CALLS, RUNS, STREAM = 2000, 9, 30_000
NAMES = list("abcd")


def microseconds(call: Callable[[], Any], calls: int = CALLS) -> float:
    """Of one call, the best of several runs."""
    return (
        1e6 * min(timeit.repeat(call, number=calls, repeat=RUNS, timer=time.process_time)) / calls
    )


def stream(x: np.ndarray, learner: str) -> float:
    """Microseconds of scoring and learning a row of a stream."""
    model = Mixture("gaussian", 3, learner=learner, random_state=0).partial_fit(x[:-STREAM])
    model.score_one(x[0])  # the search among the rows so far

    def pass_once() -> None:
        for row in x[-STREAM:]:
            model.score_one(row)
            model.learn_one(row)

    return 1e6 * timeit.timeit(pass_once, number=1, timer=time.process_time) / STREAM


def mixed(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """A table of two real columns, counts and a category."""
    group = rng.integers(3, size=n)
    return pd.DataFrame(
        {
            "size": rng.normal(5.0 * group),
            "price": rng.gamma(2.0, 1.0 + group),
            "visits": rng.poisson(2.0 + 9.0 * group),
            "colour": rng.choice(["red", "green", "blue"], size=n),
        }
    )


def with_hole(cells: dict[str, Any]) -> dict[str, Any]:
    """The row without its second column."""
    return {name: cell for i, (name, cell) in enumerate(cells.items()) if i != 1}


def main() -> None:
    rng = np.random.default_rng(0)
    n = 20_000 + STREAM
    x = rng.normal(size=(n, 4)) + 3.0 * rng.integers(3, size=(n, 1))
    print(heading("components", "call", "microseconds"))
    for family, rows in ((Gaussian(), x), (Gaussian("diag"), x), ("exponential", np.abs(x))):
        model = Mixture(family, 3, random_state=0, n_threads=1).fit(rows[:20_000])
        named = Mixture(family, 3, random_state=0, n_threads=1)
        named.fit(pd.DataFrame(rows[:20_000], columns=NAMES))
        cells = dict(zip(NAMES, rows[0].tolist(), strict=True))
        calls: dict[str, Callable[[], Any]] = {
            "score_one": partial(model.score_one, rows[0]),
            "predict_one": partial(model.predict_one, rows[0]),
            "predict_proba_one": partial(model.predict_proba_one, rows[0]),
            "score_samples of one row": partial(model.score_samples, rows[:1]),
            "score_one of a dict": partial(named.score_one, cells),
            "score_one of a dict with a hole": partial(named.score_one, with_hole(cells)),
            "predict of one row": partial(model.predict, rows[:1]),
        }
        shown = family if isinstance(family, str) else f"Gaussian {family.covariance}"
        for name, call in calls.items():
            print(f"| {shown} | {name} | {microseconds(call):.1f} |", flush=True)
    frame = mixed(5000, rng)
    table = Mixture("auto", 3, random_state=0, n_threads=1).fit(frame)
    row = {name: frame[name].tolist()[0] for name in frame}
    of_table: dict[str, Callable[[], Any]] = {
        "score_one of a dict": partial(table.score_one, row),
        "predict_one of a dict": partial(table.predict_one, row),
        "score_one of a dict with a hole": partial(table.score_one, with_hole(row)),
    }
    for name, call in of_table.items():
        print(f"| mixed table | {name} | {microseconds(call):.1f} |", flush=True)
    for learner in ("auto", "online-em"):
        print(f"| Gaussian full, stream, {learner} | score and learn | {stream(x, learner):.1f} |")


if __name__ == "__main__":
    main()
