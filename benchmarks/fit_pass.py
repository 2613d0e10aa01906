"""A pass of EM as `fit` makes it, against the kernel alone over the whole array.

python benchmarks/fit_pass.py
"""

from __future__ import annotations

import sys
import time

import numpy as np

from _timing import passes_of_fit
from em_iteration import CASES, THREADS, example
from mixfold import Mixture
from mixfold.backends.threads import Threads
from mixfold.core.rows import Rows
from mixfold.families.gaussian import Gaussian
from mixfold.learners.em import EM
from mixfold.models.mixture_model import MixtureModel, MixtureParams

PASSES = 6
MORE = [(100_000, 50, 10, "diag", 2.0), (60_000, 784, 10, "diag", 2.0)]


def kernel_seconds(backend: Threads, params: MixtureParams, x: np.ndarray) -> float:
    """One E-step over all rows at once and an M-step."""
    began = time.perf_counter()
    sums = backend.fold(params, Rows(x), np.zeros(backend.model.n_sums))
    backend.model.maximize(backend.model.statistics(params, sums))
    return time.perf_counter() - began


def compared(x: np.ndarray, params: MixtureParams, covariance: str, rounds: int) -> list[float]:
    """Least seconds of a pass of `fit` and of the kernel, made in turn."""
    family, k = Gaussian(covariance), len(params.weights)
    backend = Threads(MixtureModel(family, k, x.shape[1]), THREADS)
    learner = EM(tol=0.0, max_iter=PASSES)
    model = Mixture(family, k, learner=learner, init=params, n_threads=THREADS)
    best = [np.inf, np.inf]
    for _ in range(rounds):
        best[0] = min(best[0], passes_of_fit(model, x).min())
        for _ in range(PASSES - 1):
            best[1] = min(best[1], kernel_seconds(backend, params, x))
    return best


def main(rounds: int = 5) -> None:
    print("| work | fit, ms per pass | kernel, ms | ratio (wanted 1.1) |\n|---|---|---|---|")
    for n, d, k, covariance, spread in [*(case[:5] for case in CASES), *MORE]:
        x, params = example(n, d, k, covariance, spread)
        fit, kernel = compared(x, params, covariance, rounds)
        work = f"n={n:,} d={d} K={k} {covariance}{' dense' if spread < 1 else ''}"
        print(f"| {work} | {fit * 1e3:.1f} | {kernel * 1e3:.1f} | {fit / kernel:.2f} |")
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
