"""Mixtures with known parameters that are hard to find from a random start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mixfold.experiments.templates import Template, gaussian

Noise = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def normal(rng: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    return rng.normal(size=size)


def student(rng: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    """t distributions with three degrees of freedom in each column, of variance one."""
    return np.asarray(rng.standard_t(3.0, size=size) / np.sqrt(3.0))


@dataclass(frozen=True)
class Construction:
    """Weights, means and covariances by seed; how many rows and components are to be fitted.

    `step` is the resolution to which values are recorded, 0 for none; `surplus` is how many
    components more than the truth has are fitted.
    """

    truth: Callable[[np.random.Generator], tuple[Any, Any, Any]]
    n: int
    noise: Noise = normal
    step: float = 0.0
    surplus: int = 0

    def draw(self, seed: int) -> tuple[Template, np.ndarray, np.ndarray]:
        """The true parameters, n training rows and as many held-out rows."""
        rng = np.random.default_rng(seed)
        weights, means, covariances = (np.asarray(part) for part in self.truth(rng))
        labels = rng.choice(len(weights), size=2 * self.n, p=weights)
        noise = self.noise(rng, (2 * self.n, means.shape[1]))
        factors = np.linalg.cholesky(covariances)
        x = means[labels] + np.einsum("nij,nj->ni", factors[labels], noise)
        x = np.round(x / self.step) * self.step if self.step else x
        return gaussian(weights, means, covariances), x[: self.n], x[self.n :]


def _even(k: int) -> np.ndarray:
    return np.full(k, 1.0 / k)


def _rotation(rng: np.random.Generator, d: int) -> np.ndarray:
    return np.asarray(np.linalg.qr(rng.normal(size=(d, d)))[0])


def parallel(d: int, k: int = 3) -> Callable[[np.random.Generator], tuple[Any, Any, Any]]:
    """Clusters 10 long and 0.3 wide, side by side at a distance of 2, turned at random."""

    def truth(rng: np.random.Generator) -> tuple[Any, Any, Any]:
        turn = _rotation(rng, d)
        means = np.zeros((k, d))
        means[:, 0] = 2.0 * np.arange(k)
        variances = np.full(d, 100.0)
        variances[0] = 0.09
        return _even(k), means @ turn.T, [turn @ np.diag(variances) @ turn.T] * k

    return truth


def sphered(d: int, k: int = 3) -> Callable[[np.random.Generator], tuple[Any, Any, Any]]:
    """Clusters 6 deviations apart along one direction; the variance is 1 in all directions."""

    def truth(rng: np.random.Generator) -> tuple[Any, Any, Any]:
        turn = _rotation(rng, d)
        places = 6.0 * (np.arange(k) - (k - 1) / 2.0)
        within = 1.0 / (1.0 + places.var())
        means = np.zeros((k, d))
        means[:, 0] = places * np.sqrt(within)
        variances = np.ones(d)
        variances[0] = within
        return _even(k), means @ turn.T, [turn @ np.diag(variances) @ turn.T] * k

    return truth


def nested(d: int) -> Callable[[np.random.Generator], tuple[Any, Any, Any]]:
    """Equal means, deviations of 0.2, 1 and 5."""

    def truth(rng: np.random.Generator) -> tuple[Any, Any, Any]:
        return _even(3), np.zeros((3, d)), [s**2 * np.eye(d) for s in (0.2, 1.0, 5.0)]

    return truth


def grid(side: int) -> Callable[[np.random.Generator], tuple[Any, Any, Any]]:
    """side x side round clusters, 6 deviations apart."""

    def truth(rng: np.random.Generator) -> tuple[Any, Any, Any]:
        places = 6.0 * np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1)
        return _even(side**2), places.reshape(-1, 2), [np.eye(2)] * side**2

    return truth


def apart(
    d: int, distance: float, weights: Any
) -> Callable[[np.random.Generator], tuple[Any, Any, Any]]:
    """Random covariances; means at random, so that two are about `distance` deviations apart."""

    def truth(rng: np.random.Generator) -> tuple[Any, Any, Any]:
        k = len(weights)
        means = rng.normal(size=(k, d)) * distance / np.sqrt(2.0 * d)
        turns = [_rotation(rng, d) for _ in range(k)]
        variances = rng.uniform(0.3, 1.7, size=(k, d))
        covariances = [t @ np.diag(v) @ t.T for t, v in zip(turns, variances, strict=True)]
        return weights, means, covariances

    return truth


FEW = Construction(apart(4, 9.0, [0.005, 0.01, 0.2, 0.285, 0.5]), 20_000)
FIVE = Construction(apart(4, 7.0, _even(5)), 5000)
CONSTRUCTIONS = {
    "elongated and parallel, d=2": Construction(parallel(2), 2000),
    "elongated and parallel, d=10": Construction(parallel(10), 5000),
    "sphered, d=10": Construction(sphered(10), 5000),
    "sphered, d=30": Construction(sphered(30), 10_000),
    "sphered, d=50": Construction(sphered(50), 20_000),
    "sphered, two clusters, d=30": Construction(sphered(30, 2), 10_000),
    "nested, equal means, d=2": Construction(nested(2), 3000),
    "nested, equal means, d=10": Construction(nested(10), 3000),
    "grid of 25": Construction(grid(5), 5000),
    "grid of 100": Construction(grid(10), 20_000),
    "grid of 400": Construction(grid(20), 80_000),
    "weights of 0.5% and 1%": FEW,
    "overlap": Construction(apart(4, 3.0, _even(4)), 20_000),
    "heavy tails, t3": replace(FIVE, noise=student),
    "more components than truth": replace(FIVE, surplus=3),
    "discrete values, steps of 0.5": replace(FIVE, step=0.5),
    "tied values, steps of 1": replace(FIVE, step=1.0),
    "random covariances, d=5": Construction(apart(5, 5.0, _even(8)), 10_000),
    "random covariances, d=20": Construction(apart(20, 6.0, _even(8)), 20_000),
}
