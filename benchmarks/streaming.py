"""Online EM one row per update, through `partial_fit` and through `learn_one`.

python benchmarks/streaming.py
"""

from __future__ import annotations

import time

import numpy as np
from _timing import best_alternating

from mixfold import Mixture


def rows_per_second() -> float:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1_000_000, 2)) + 4.0 * rng.integers(3, size=(1_000_000, 1))
    model = Mixture(n_components=3, learner="online-em", random_state=0).partial_fit(x[:1000])
    return len(x) / best_alternating({"fold": lambda: model.partial_fit(x)}, 5)["fold"]


def microseconds_per_row() -> float:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50_000, 4))
    model = Mixture(n_components=3, learner="online-em", random_state=0).partial_fit(x[:1000])
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        for row in x:
            model.learn_one(row)
        best = min(best, (time.perf_counter() - began) / len(x))
    return best * 1e6


if __name__ == "__main__":
    print(f"partial_fit, d=2, K=3: {rows_per_second() / 1e6:.2f} million rows/s (wanted 1.5)")
    print(f"learn_one, d=4, K=3: {microseconds_per_row():.1f} us (wanted at most 10)")
