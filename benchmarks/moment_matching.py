"""Bayesian moment matching on one thread: rows per second, and drift over a long stream.

python benchmarks/moment_matching.py
"""

from __future__ import annotations

from functools import partial

import numpy as np

from _timing import best_alternating
from mixfold.backends.threads import Threads
from mixfold.core.backend_capabilities import MomentMatcher, required
from mixfold.core.conjugate import Prior
from mixfold.core.rows import Rows
from mixfold.families.gaussian import Gaussian
from mixfold.models.bayesian_mixture import BayesianMixture, MixturePosterior
from mixfold.models.mixture_model import MixtureModel, MixtureParams

# covariance, rows, d, K, wanted rows per second
CASES = [
    ("full", 200_000, 2, 3, None),
    ("full", 200_000, 10, 5, 200_000),
    ("full", 130_064, 50, 10, 130_064 / 15),
    ("diag", 200_000, 10, 5, None),
]
BLOCK, LONG = 100_000, 10_000_000


def example(covariance: str, n: int, d: int, k: int) -> tuple[Threads, MixturePosterior, Rows]:
    """Rows of a mixture and posteriors around its parameters."""
    rng = np.random.default_rng(0)
    model = MixtureModel(Gaussian(covariance), k, d)
    params = MixtureParams(np.full(k, 1.0 / k), model.family.example(k, d, rng))
    prior = BayesianMixture(model).prior(params, Prior())
    return Threads(model, 1), prior, Rows(model.sample(params, n, rng)[0])


def speeds() -> None:
    """Rows per second."""
    print("| work | seconds | rows/s | wanted |\n|---|---|---|---|")
    for covariance, n, d, k, wanted in CASES:
        backend, prior, rows = example(covariance, n, d, k)
        matcher = required(backend, MomentMatcher)
        seconds = best_alternating({"match": partial(matcher.match, prior, rows)}, 3)["match"]
        least = "" if wanted is None else f"{wanted:,.0f}"
        print(
            f"| {covariance} n={n:,} d={d} K={k} | {seconds:.2f} | {n / seconds:,.0f} | {least} |"
        )


def drift(d: int = 10) -> None:
    """How far carried factors are from the exact posterior of one component, after many rows."""
    rng = np.random.default_rng(1)
    root = np.tril(rng.normal(size=(d, d))) + 3.0 * np.eye(d)
    model = MixtureModel(Gaussian(), 1, d)
    params = MixtureParams(np.ones(1), model.family.example(1, d, rng))
    prior = BayesianMixture(model).prior(params, Prior())
    backend, posterior = Threads(model, 1), prior
    origin = prior.components.mean[0]
    total, square = np.zeros(d), np.zeros((d, d))
    for _ in range(0, LONG, BLOCK):
        x = rng.normal(size=(BLOCK, d)) @ root.T + 5.0
        posterior = required(backend, MomentMatcher).match(posterior, Rows(x))[0]
        total += (x - origin).sum(axis=0)
        square += (x - origin).T @ (x - origin)
    factor, before = posterior.components.scale[0], prior.components.scale[0]
    v = before @ before.T + square - np.outer(total, total) / posterior.components.kappa[0]
    whiten = np.linalg.inv(factor)
    error = np.abs(whiten.T @ whiten @ v - np.eye(d)).max()
    print(f"\nafter {LONG:,} rows, d={d}: largest entry of |W V - I| {error:.1e} (wanted 1e-8)")


if __name__ == "__main__":
    speeds()
    drift()
