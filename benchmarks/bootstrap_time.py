"""What the bootstrap costs: processor time of 100 replicates, as a multiple of that of one fit.

    python benchmarks/bootstrap_time.py [REPLICATES]

Groups are normal, 3.5 standard deviations apart along each axis, every other one 1.2 times as wide.
The fits are `Mixture(Gaussian(), K)` with the default learner and with EM, on one thread.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from mixfold import Gaussian, Mixture

T = TypeVar("T")
RUNS = 3


def rows(n: int, d: int, k: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    means = np.zeros((k, d))
    for j in range(1, k):
        means[j, j % d] = 3.5 * (1 + j // d)
    labels = rng.integers(k, size=n)
    return means[labels] + rng.normal(size=(n, d)) * (1.0 + 0.2 * (labels[:, None] % 2))


def timed(work: Callable[[], T], runs: int = RUNS) -> tuple[float, T]:
    """The least processor time of several runs, and the result."""
    best = np.inf
    for _ in range(runs):
        began = time.process_time()
        found = work()
        best = min(best, time.process_time() - began)
    return best, found


def costs(n: int, d: int, k: int, replicates: int) -> tuple[list[float], list[float]]:
    """Milliseconds of both fits and of observed errors, and the ratios of both bootstraps."""
    x = rows(n, d, k)

    def fitted(learner: str) -> Mixture:
        return Mixture(Gaussian(), k, learner=learner, random_state=0, n_threads=1).fit(x)

    def bootstrapped(kind: str) -> float:
        return timed(lambda: model.estimates(x, kind, n_replicates=replicates))[0]

    by_default, model = timed(lambda: fitted("auto"))
    by_em, _ = timed(lambda: fitted("em"))
    observed, _ = timed(lambda: model.estimates(x))
    took = [bootstrapped(kind) for kind in ("bootstrap", "parametric-bootstrap")]
    ratios = [each / fit for each in took for fit in (by_default, by_em)]
    return [1e3 * each for each in (by_default, by_em, observed)], ratios


def main() -> None:
    replicates = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print(
        "| rows | d | K | fit, ms | EM | observed errors | weighted: fits | EM | drawn: fits | EM |"
    )
    for n in (10_000, 100_000):
        for d, k in ((2, 2), (3, 3), (5, 5)):
            times, ratios = costs(n, d, k, replicates)
            cells = [f"{each:.0f}" for each in times] + [f"{each:.1f}" for each in ratios]
            print(f"| {n:.0e} | {d} | {k} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
