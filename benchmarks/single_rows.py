"""Microseconds of evaluating a single row, by the methods for rows and for arrays.

    python benchmarks/single_rows.py

Three components in four columns, on one thread; the best of several runs. A dict has the columns of
a table. The stream has learned 20,000 rows, and every later one is scored and then learned.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from _tables import heading
from mixfold import Gaussian, Mixture

CALLS, RUNS, STREAM = 2000, 9, 5000
NAMES = list("abcd")


def microseconds(call: Callable[[], Any], calls: int = CALLS) -> float:
    """Of one call, the best of several runs."""
    return 1e6 * min(timeit.repeat(call, number=calls, repeat=RUNS)) / calls


def stream(x: np.ndarray, learner: str) -> float:
    """Microseconds of scoring and learning a row of a stream."""
    model = Mixture("gaussian", 3, learner=learner, random_state=0).partial_fit(x[:-STREAM])

    def pass_once() -> None:
        for row in x[-STREAM:]:
            model.score_one(row)
            model.learn_one(row)

    return 1e6 * timeit.timeit(pass_once, number=1) / STREAM


def main() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(25_000, 4)) + 3.0 * rng.integers(3, size=(25_000, 1))
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
            "predict of one row": partial(model.predict, rows[:1]),
        }
        shown = family if isinstance(family, str) else f"Gaussian {family.covariance}"
        for name, call in calls.items():
            print(f"| {shown} | {name} | {microseconds(call):.1f} |", flush=True)
    for learner in ("auto", "online-em"):
        print(f"| Gaussian full, stream, {learner} | score and learn | {stream(x, learner):.1f} |")


if __name__ == "__main__":
    main()
