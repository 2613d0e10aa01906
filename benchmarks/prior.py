"""Small tables and outliers: the prior of covariances against none, and against scikit-learn.

    python benchmarks/prior.py --splits 5

The held-out gain over a single Gaussian in nats per row, K=5, full covariances, columns
standardised by the training rows; the mean over random splits with a fifth held out. The tables
come with scikit-learn, or are drawn here. Below, held-out scores where a few training rows are far
from all others.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator

import numpy as np
from sklearn import datasets
from sklearn.mixture import GaussianMixture

from mixfold import Auto, Gaussian, Mixture

K = 5


def tables() -> Iterator[tuple[str, np.ndarray]]:
    """Names and rows."""
    rng = np.random.default_rng(4)
    yield "wine", datasets.load_wine().data
    yield "breast cancer, 18 columns", datasets.load_breast_cancer().data[:400, :18]
    yield "digits, 10 components", components(datasets.load_digits().data, 10)
    yield "digits, 15 components, 300 rows", components(datasets.load_digits().data, 15)[:300]
    for n, d, k, apart in (
        (300, 10, 5, 3.0),
        (400, 20, 5, 2.0),
        (400, 15, 5, 0.7),
        (250, 17, 1, 1),
    ):
        yield f"{k} clusters, {apart:g} apart, {n} x {d}", clusters(rng, n, d, k, apart)


def components(x: np.ndarray, number: int) -> np.ndarray:
    """Principal components."""
    x = x - x.mean(axis=0)
    return np.asarray(x @ np.linalg.svd(x, full_matrices=False)[2][:number].T)


def clusters(rng: np.random.Generator, n: int, d: int, k: int, apart: float) -> np.ndarray:
    """Rows of Gaussians whose covariances differ."""
    means = apart * rng.normal(size=(k, d))
    labels = rng.integers(k, size=n)
    factors = 0.3 * rng.normal(size=(k, d, d)) + np.eye(d)
    noise = np.einsum("nij,nj->ni", factors[labels], rng.normal(size=(n, d)))
    return np.asarray(means[labels] + noise)


def ours(strength: float | None) -> Callable[[np.ndarray, int], Mixture]:
    """A fit with a strength of the prior; None is the default."""
    learner = Auto(prior_strength=strength)
    return lambda x, seed: Mixture(Gaussian(), K, learner=learner, random_state=seed).fit(x)


def best_of_ten(x: np.ndarray, seed: int) -> GaussianMixture:
    """scikit-learn's best of ten."""
    return GaussianMixture(K, tol=1e-5, max_iter=1000, n_init=10, random_state=seed).fit(x)


FITS: dict[str, Callable[[np.ndarray, int], Mixture | GaussianMixture]] = {
    "auto": ours(None),
    "prior 1": ours(1.0),
    "no prior": ours(0.0),
    "scikit-learn, best of ten": best_of_ten,
}


def split(x: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Standardised training rows and held-out rows."""
    x = x[np.random.default_rng(seed).permutation(len(x))]
    kept, held_out = x[len(x) // 5 :], x[: len(x) // 5]
    mean, deviation = kept.mean(axis=0), kept.std(axis=0)
    return (kept - mean) / deviation, (held_out - mean) / deviation


def gains(x: np.ndarray, seed: int) -> list[float]:
    """What every fit gains over a single Gaussian on held-out rows."""
    kept, held_out = split(x, seed)
    single = Mixture(Gaussian(), 1).fit(kept).score(held_out)
    return [float(fit(kept, seed).score(held_out) - single) for fit in FITS.values()]


def far_rows(number: int, distance: float) -> list[float]:
    """Held-out scores where some training rows are moved far away."""
    rng = np.random.default_rng(0)
    means = 4.0 * rng.normal(size=(4, 4))
    x = means[rng.integers(4, size=6000)] + rng.normal(size=(6000, 4))
    kept, held_out = x[:5000], x[5000:]
    kept[:number] += distance * rng.normal(size=(number, 4))
    return [float(fit(kept, 0).score(held_out)) for fit in FITS.values()]


def show(name: str, found: list[float]) -> None:
    """One line of the table."""
    print(f"| {name} | " + " | ".join(f"{one:.2f}" for one in found) + " |", flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--splits", type=int, default=5)
    splits = range(parser.parse_args().splits)
    warnings.simplefilter("ignore")
    print("| table | " + " | ".join(FITS) + " |\n|---|" + "---|" * len(FITS))
    for name, x in tables():
        show(name, np.mean([gains(x, seed) for seed in splits], axis=0).tolist())
    print("\n| far rows of 5,000 | " + " | ".join(FITS) + " |\n|---|" + "---|" * len(FITS))
    for number, distance in ((0, 0.0), (1, 1e6), (3, 1e6), (100, 1e3), (100, 1e6)):
        show(f"{number} at {distance:g} deviations", far_rows(number, distance))


if __name__ == "__main__":
    main()
