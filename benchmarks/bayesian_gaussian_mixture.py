"""Processor time of `BayesianGaussianMixture` and of scikit-learn's, for the same fits.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/bayesian_gaussian_mixture.py

Both make the same iterations from the same initial responsibilities, on one thread. The two run
alternately, and the least time of three fits counts.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture as Original

from mixfold import BayesianGaussianMixture, datasets

ITERATIONS = 50
SHAPES = (10_000, 2, 10), (10_000, 10, 10), (50_000, 5, 20)


def clusters(n: int, d: int) -> np.ndarray:
    """Eight groups of rows."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)) + 5.0 * rng.normal(size=(8, d))[rng.integers(8, size=n)]


def seconds(model: Any, x: np.ndarray) -> float:
    """Processor time of a fit."""
    began = time.process_time()
    model.fit(x)
    return time.process_time() - began


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    tables = [
        (10, np.asarray(datasets.load_faithful())),
        *((k, clusters(n, d)) for n, d, k in SHAPES),
    ]
    for k, x in tables:
        for covariance in ("full", "tied", "diag", "spherical"):
            settings: dict[str, Any] = {"n_components": k, "covariance_type": covariance}
            settings |= {"max_iter": ITERATIONS, "tol": 0.0, "init_params": "random"}
            settings |= {"random_state": 0}
            ours, theirs = np.inf, np.inf
            for _ in range(3):
                model = BayesianGaussianMixture(n_threads=1, **settings)
                ours = min(ours, seconds(model, x))
                theirs = min(theirs, seconds(Original(**settings), x))
            print(
                f"{len(x):>6} x {x.shape[1]:<2} K={k} {covariance:<9} "
                f"{1e3 * ours:7.1f} ms, scikit-learn {1e3 * theirs:8.1f} ms: {theirs / ours:.1f}x",
                flush=True,
            )


if __name__ == "__main__":
    main()
