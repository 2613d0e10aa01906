"""A pass of EM as `fit` makes it, float64, two threads, against scikit-learn and oneDAL.

python benchmarks/em_iteration.py
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from _timing import (
    best_alternating,
    matrix_product_peak,
    passes_of_fit,
    processor,
    read_bandwidth,
)
from mixfold import Mixture
from mixfold.families.gaussian import Gaussian
from mixfold.learners.em import EM
from mixfold.models.mixture_model import MixtureParams

THREADS = 2
PASSES = 6
# n, d, K, covariance, spread of the centres, wanted over scikit-learn, wanted over oneDAL; with
# the small spread every row belongs a little to every component, the worst case of the kernel
CASES = [
    (1_000_000, 2, 3, "full", 2.0, 60.0, 2.0),
    (1_000_000, 4, 3, "full", 2.0, 50.0, 4.0),
    (500_000, 10, 8, "full", 2.0, 35.0, 2.5),
    (200_000, 16, 10, "full", 2.0, 30.0, 1.3),
    (100_000, 50, 10, "full", 2.0, 18.0, 1.0),
    (60_000, 784, 64, "diag", 2.0, 3.0, None),
    (60_000, 784, 64, "diag", 0.05, 3.0, None),
]


def example(
    n: int, d: int, k: int, covariance: str, spread: float = 2.0
) -> tuple[np.ndarray, MixtureParams]:
    """Clusters and a start near them."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(k, d)) * spread
    x = centers[rng.integers(k, size=n)] + rng.normal(size=(n, d))
    family = Gaussian(covariance)
    params = family.example(k, d, rng)
    return x, MixtureParams(np.full(k, 1.0 / k), type(params)(centers, params.scale))


def ours(x: np.ndarray, params: MixtureParams, covariance: str) -> Callable[[], float]:
    """The fastest pass of a fit through the public API."""
    learner = EM(tol=0.0, max_iter=PASSES)
    family = Gaussian(covariance)
    model = Mixture(family, len(params.weights), learner=learner, init=params, n_threads=THREADS)
    return lambda: float(passes_of_fit(model, x).min())


def theirs(x: np.ndarray, params: MixtureParams, covariance: str) -> Callable[[], object]:
    """scikit-learn's E and M step, without the rest of its loop."""
    structure = Gaussian(covariance).structure
    spread = structure.covariances(params.components.scale)
    precisions = np.linalg.inv(spread) if covariance == "full" else 1.0 / spread
    model = GaussianMixture(
        len(params.weights),
        covariance_type=covariance,
        weights_init=params.weights,
        means_init=params.components.means,
        precisions_init=precisions,
        max_iter=1,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x)

    def iterate() -> None:
        _, log_resp = model._e_step(x)
        model._m_step(x, log_resp)

    return iterate


def intel(x: np.ndarray, params: MixtureParams, covariance: str) -> Callable[[], object]:
    """oneDAL's batch EM, one iteration from the same parameters."""
    import daal4py

    daal4py.daalinit(THREADS)
    spread = Gaussian(covariance).structure.covariances(params.components.scale)
    algorithm = daal4py.em_gmm(
        nComponents=len(params.weights),
        maxIterations=1,
        accuracyThreshold=0.0,
        covarianceStorage="full" if covariance == "full" else "diagonal",
    )
    weights, means = params.weights[None], params.components.means
    covariances = list(spread) if covariance == "full" else [row[None] for row in spread]

    def iterate() -> None:
        algorithm.compute(x, weights, means, covariances)

    return iterate


def floor_seconds(n: int, d: int, k: int, covariance: str, peak: float, read: float) -> float:
    """The least time: two packed triangular products per row and component, or one read."""
    per_row = 2 * d * (d + 1) if covariance == "full" else 4 * d
    return max(n * k * per_row / peak, 8 * n * d / read)


def main(rounds: int = 7) -> None:
    with threadpool_limits(THREADS):
        peak, read = matrix_product_peak(), read_bandwidth()
        print(f"matrix product {peak / 1e9:.0f} GF/s, read {read / 1e9:.1f} GB/s; {processor()}\n")
        print(
            "| work | mixfold ms | scikit-learn ms | oneDAL ms | over scikit-learn (wanted) "
            "| over oneDAL (wanted) | of roofline |\n|---|---|---|---|---|---|---|"
        )
        for n, d, k, covariance, spread, wanted_sk, wanted_intel in CASES:
            x, params = example(n, d, k, covariance, spread)
            rivals: dict[str, Callable[[], object]] = {
                "mixfold": ours(x, params, covariance),
                "oneDAL": intel(x, params, covariance),
            }
            fast = best_alternating(rivals, 3 * rounds if d < 100 else 3)
            rivals["scikit-learn"] = theirs(x, params, covariance)
            fast |= {"scikit-learn": best_alternating(rivals, 9)["scikit-learn"]}
            mine, sk, dal = (fast[name] for name in ("mixfold", "scikit-learn", "oneDAL"))
            work = f"n={n:,} d={d} K={k} {covariance}{' dense' if spread < 1 else ''}"
            wanted = f" ({wanted_intel}x)" if wanted_intel else ""
            reached = floor_seconds(n, d, k, covariance, peak, read) / mine
            print(
                f"| {work} | {mine * 1e3:.1f} | {sk * 1e3:.0f} | {dal * 1e3:.1f} "
                f"| {sk / mine:.0f}x ({wanted_sk:.0f}x) | {dal / mine:.1f}x{wanted} "
                f"| {reached:.0%} |"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
