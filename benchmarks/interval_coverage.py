"""How often 95% confidence intervals hold the true parameters of mixtures.

    python benchmarks/interval_coverage.py [REPLICATIONS] [ROWS] [BOOTSTRAP_REPLICATIONS]

Every mixture has two components of weights 0.4 and 0.6. Fits begin at the truth, so that components
are in its order. Intervals of the bootstrap have 100 replicates each.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from mixfold import Bernoulli, Categorical, Gaussian, Mixture, Poisson, Product
from mixfold.families.categorical import ProbabilityParams
from mixfold.families.exponential import Exponential
from mixfold.families.gaussian import GaussianParams
from mixfold.families.mean_params import MeanParams
from mixfold.families.product import ProductParams
from mixfold.learners.em import EM
from mixfold.models.estimate_covariance import shown_parameters
from mixfold.models.information import MixtureScores
from mixfold.models.mixture_model import MixtureModel, MixtureParams

KINDS = "observed", "empirical", "sandwich"
WEIGHTS = np.array([0.4, 0.6])
LEARNER = EM(tol=1e-5, accelerate=True)


def gaussians(distance: float) -> tuple[Any, Any]:
    means, deviations = np.array([[0.0], [distance]]), np.array([[1.0], [1.2]])
    return Gaussian("diag"), GaussianParams(means, deviations)


def correlated() -> tuple[Any, Any]:
    scale = np.array([[[1.0, 0.0], [0.6, 0.8]], [[1.2, 0.0], [-0.5, 1.0]]])
    return Gaussian(), GaussianParams(np.array([[0.0, 0.0], [2.5, 1.0]]), scale)


def table() -> tuple[Any, Any]:
    family = Product({0: Gaussian(), 1: Poisson(), 2: Categorical(3), 3: Bernoulli()})
    levels = np.array([[[0.6, 0.3, 0.1]], [[0.2, 0.3, 0.5]]])
    parts = (
        GaussianParams(np.array([[0.0], [1.5]]), np.array([[1.0], [1.3]])),
        MeanParams(np.array([[2.0], [5.0]])),
        ProbabilityParams(levels),
        ProbabilityParams(np.array([[0.3], [0.7]])),
    )
    return family, ProductParams(parts)


CASES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "Gaussian, distance 8": lambda: gaussians(8.0),
    "Gaussian, distance 3": lambda: gaussians(3.0),
    "Gaussian, two columns, full": correlated,
    "Poisson, rates 2 and 8": lambda: (Poisson(), MeanParams(np.array([[2.0], [8.0]]))),
    "exponential, means 1 and 10": lambda: (Exponential(), MeanParams(np.array([[1.0], [10.0]]))),
    "mixed table of four columns": table,
}


def coverage(
    name: str, replications: int, rows: int, kinds: tuple[str, ...]
) -> dict[str, tuple[float, float]]:
    """The fraction of all intervals that hold the truth, and the smallest of a parameter."""
    family, components = CASES[name]()
    truth = MixtureParams(WEIGHTS, components)
    mixture = MixtureModel(family, 2, family.n_columns or components.means.shape[1])
    values = np.concatenate(
        [one.values for one in shown_parameters(truth, MixtureScores(mixture, truth))]
    )
    model = Mixture(family, 2, init=truth, learner=LEARNER, n_threads=1)
    held: dict[str, list[np.ndarray]] = {kind: [] for kind in kinds}
    for seed in range(replications):
        x = mixture.sample(truth, rows, np.random.default_rng(seed))[0]
        model.set_params(random_state=seed).fit(x)
        for kind in kinds:
            found = model.estimates(x, kind, n_replicates=100)
            low, high = found.ends(0.95)
            held[kind].append((low <= values) & (values <= high))
    shares = {kind: np.mean(each, axis=0) for kind, each in held.items()}
    return {kind: (float(each.mean()), float(each.min())) for kind, each in shares.items()}


def main() -> None:
    numbers = [int(one) for one in sys.argv[1:]]
    replications, rows, bootstraps = [*numbers, *(300, 10_000, 0)[len(numbers) :]]
    runs: list[tuple[int, tuple[str, ...]]] = [(replications, KINDS)]
    if bootstraps:
        runs.append((bootstraps, ("bootstrap",)))
    for name in CASES:
        for number, kinds in runs:
            for kind, (mean, least) in coverage(name, number, rows, kinds).items():
                print(f"{name:<30} {kind:<10} {number:>5} {mean:.1%} {least:.1%}", flush=True)


if __name__ == "__main__":
    main()
