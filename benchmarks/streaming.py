"""One row per update: through `partial_fit` and `learn_one`, and every learner that does so.

python benchmarks/streaming.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from _timing import best_alternating
from mixfold import Mixture
from mixfold.backends.threads import Threads
from mixfold.core.learner import Learner
from mixfold.core.rows import Rows
from mixfold.families.gaussian import Gaussian
from mixfold.learners.fast_incremental_em import FastIncrementalEM
from mixfold.learners.incremental_em import IncrementalEM
from mixfold.learners.online_em import OnlineEM
from mixfold.learners.online_k_mle import OnlineKMLE
from mixfold.learners.recursive_em import RecursiveEM
from mixfold.learners.variance_reduced_em import VarianceReducedEM
from mixfold.models.mixture_model import MixtureModel, MixtureParams

LEARNERS: dict[str, Learner] = {
    "online EM": OnlineEM(),
    "online k-MLE, argmax": OnlineKMLE(strategy="argmax"),
    "online k-MLE, sample": OnlineKMLE(strategy="sample"),
    "online k-MLE, lookahead": OnlineKMLE(strategy="lookahead"),
    "recursive EM": RecursiveEM(),
    "incremental EM": IncrementalEM(),
    "variance-reduced EM": VarianceReducedEM(),
    "fast incremental EM": FastIncrementalEM(),
}


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


def all_learners(d: int, k: int, n: int = 100_000) -> dict[str, float]:
    """Millions of rows per second of every learner, alternating; a second pass where it fills."""
    rng = np.random.default_rng(0)
    x = Rows(rng.normal(size=(n, d)) + 4.0 * rng.integers(k, size=(n, 1)))
    model = MixtureModel(Gaussian(), k, d)
    start = MixtureParams(np.full(k, 1.0 / k), model.family.example(k, d, rng))
    backend = Threads(model, 1)
    works: dict[str, Callable[[], object]] = {}
    for name, learner in LEARNERS.items():
        rule = learner.resolve(n, d, False)
        state = rule.init(backend, start, 1000)
        if rule.rereads:
            state, _ = rule.end_pass(backend, rule.step(backend, state, x)[0])
        works[name] = partial(rule.step, backend, state, x)
    return {name: n / seconds / 1e6 for name, seconds in best_alternating(works, 25).items()}


def print_table(d: int, k: int) -> None:
    print(f"\n| d={d}, K={k} | million rows/s | of online EM |\n|---|---|---|")
    found = all_learners(d, k)
    for name, speed in found.items():
        print(f"| {name} | {speed:.2f} | {speed / found['online EM']:.2f}x |")


if __name__ == "__main__":
    print(f"partial_fit, d=2, K=3: {rows_per_second() / 1e6:.2f} million rows/s (wanted 1.5)")
    print(f"learn_one, d=4, K=3: {microseconds_per_row():.1f} us (wanted at most 10)")
    print_table(2, 3)
    print_table(10, 8)
