"""A pass of EM over clusters far apart against one over clusters that overlap, one thread.

python benchmarks/pruning.py [ROUNDS]
"""

from __future__ import annotations

import sys
import time
import warnings
from functools import partial

import numpy as np

from _timing import best_alternating, processor
from em_iteration import example
from mixfold import Mixture
from mixfold.families.gaussian import Gaussian
from mixfold.learners.em import EM
from mixfold.models.mixture_model import MixtureParams

FEW, MANY = 2, 8  # passes of two fits, whose difference is that of the passes alone
SPREADS = {"overlapping": 0.05, "far apart": 8.0}  # of the centres, in deviations of a cluster
CASES = [
    (200_000, 4, 8, "full"),
    (200_000, 4, 64, "full"),
    (200_000, 10, 8, "full"),
    (100_000, 10, 32, "full"),
    (100_000, 16, 10, "full"),
    (50_000, 16, 64, "full"),
    (50_000, 32, 16, "full"),
    (20_000, 50, 32, "full"),
    (200_000, 4, 32, "diag"),
    (200_000, 10, 8, "diag"),
    (100_000, 10, 32, "diag"),
    (100_000, 16, 64, "diag"),
    (50_000, 50, 32, "diag"),
    (5_000, 784, 64, "diag"),
]


def fit(x: np.ndarray, params: MixtureParams, covariance: str, passes: int) -> float:
    """Seconds of the processor."""
    learner = EM(tol=0.0, max_iter=passes)
    family = Gaussian(covariance)
    model = Mixture(family, len(params.weights), learner=learner, init=params, n_threads=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.process_time()
        model.fit(x)
        return time.process_time() - began


def main(rounds: int = 7) -> None:
    print(f"{processor()}\n")
    print("| work | overlapping, ns per row | far apart | quicker (wanted 2x) |\n|---|---|---|---|")
    for n, d, k, covariance in CASES:
        rivals = {
            (name, passes): partial(fit, *example(n, d, k, covariance, spread), covariance, passes)
            for name, spread in SPREADS.items()
            for passes in (FEW, MANY)
        }
        best = best_alternating(rivals, rounds)
        near, far = (1e9 * (best[s, MANY] - best[s, FEW]) / (MANY - FEW) / n for s in SPREADS)
        work = f"n={n:,} d={d} K={k} {covariance}"
        print(f"| {work} | {near:.1f} | {far:.1f} | {near / far:.1f}x |")
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
