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


def parallel(
    d: int,
    k: int,
    length: float = 20.0,
    distance: float = 5.0,
    long: int = 1,
    weights: Any = None,
    lengths: Any = None,
) -> Callable[[np.random.Generator], tuple[Any, Any, Any]]:
    """Clusters with a deviation of `length` in `long` directions and of 1 in the others.

    They lie side by side, `distance` apart in a direction in which their deviation is 1, and are
    turned at random. `lengths` are those of each cluster instead.
    """

    def truth(rng: np.random.Generator) -> tuple[Any, Any, Any]:
        turn = _rotation(rng, d)
        means = np.zeros((k, d))
        means[:, 0] = distance * np.arange(k)
        deviations = np.ones((k, d))
        deviations[:, 1 : 1 + long] = np.full((k, 1), length) if lengths is None else lengths
        covariances = [(turn * v**2) @ turn.T for v in deviations]
        return _even(k) if weights is None else weights, means @ turn.T, covariances

    return truth


def crossed(d: int, k: int, length: float) -> Callable[[np.random.Generator], tuple[Any, Any, Any]]:
    """Equal means, a deviation of `length` in one direction of a plane, another for each."""

    def truth(rng: np.random.Generator) -> tuple[Any, Any, Any]:
        turn, covariances = _rotation(rng, d), []
        for angle in np.pi * np.arange(k) / k:
            axis = np.cos(angle) * turn[0] + np.sin(angle) * turn[1]
            covariances.append(np.eye(d) + (length**2 - 1.0) * np.outer(axis, axis))
        return _even(k), np.zeros((k, d)), covariances

    return truth


def sphered(
    d: int, k: int = 3, distance: float = 6.0, weights: Any = None
) -> Callable[[np.random.Generator], tuple[Any, Any, Any]]:
    """Clusters so many deviations apart in one direction; the variance is 1 in all directions."""

    def truth(rng: np.random.Generator) -> tuple[Any, Any, Any]:
        share = _even(k) if weights is None else np.asarray(weights)
        turn = _rotation(rng, d)
        places = distance * np.arange(k)
        places = places - share @ places
        within = 1.0 / (1.0 + share @ places**2)
        means = np.zeros((k, d))
        means[:, 0] = places * np.sqrt(within)
        variances = np.ones(d)
        variances[0] = within
        return share, means @ turn.T, [turn @ np.diag(variances) @ turn.T] * k

    return truth


def polygon(d: int, k: int, radius: float) -> Callable[[np.random.Generator], tuple[Any, Any, Any]]:
    """Clusters at the corners of a polygon in a plane; the variance is 1 in all directions."""

    def truth(rng: np.random.Generator) -> tuple[Any, Any, Any]:
        turn, angles = _rotation(rng, d), 2.0 * np.pi * np.arange(k) / k
        within = 1.0 / (1.0 + radius**2 / 2.0)
        means = np.zeros((k, d))
        means[:, 0], means[:, 1] = np.cos(angles), np.sin(angles)
        variances = np.ones(d)
        variances[:2] = within
        means *= radius * np.sqrt(within)
        return _even(k), means @ turn.T, [turn @ np.diag(variances) @ turn.T] * k

    return truth


def nested(
    d: int, deviations: tuple[float, ...] = (0.2, 1.0, 5.0), weights: Any = None
) -> Callable[[np.random.Generator], tuple[Any, Any, Any]]:
    """Equal means and different deviations."""

    def truth(rng: np.random.Generator) -> tuple[Any, Any, Any]:
        k = len(deviations)
        share = _even(k) if weights is None else weights
        return share, np.zeros((k, d)), [s**2 * np.eye(d) for s in deviations]

    return truth


def grid(
    side: int, d: int = 2, distance: float = 6.0, uneven: bool = False
) -> Callable[[np.random.Generator], tuple[Any, Any, Any]]:
    """side^d round clusters, `distance` deviations apart; uneven ones have random weights."""

    def truth(rng: np.random.Generator) -> tuple[Any, Any, Any]:
        k = side**d
        places = distance * np.stack(np.meshgrid(*[np.arange(side)] * d), axis=-1)
        weights = rng.dirichlet(np.full(k, 3.0)) if uneven else _even(k)
        return weights, places.reshape(-1, d), [np.eye(d)] * k

    return truth


def _at_random(rng: np.random.Generator, k: int, d: int, distance: float) -> np.ndarray:
    """Means of which two are about `distance` apart."""
    return np.asarray(rng.normal(size=(k, d)) * distance / np.sqrt(2.0 * d))


def apart(
    d: int, distance: float, weights: Any
) -> Callable[[np.random.Generator], tuple[Any, Any, Any]]:
    """Random covariances; means at random, so that two are about `distance` deviations apart."""

    def truth(rng: np.random.Generator) -> tuple[Any, Any, Any]:
        k = len(weights)
        means = _at_random(rng, k, d, distance)
        turns = [_rotation(rng, d) for _ in range(k)]
        variances = rng.uniform(0.3, 1.7, size=(k, d))
        covariances = [t @ np.diag(v) @ t.T for t, v in zip(turns, variances, strict=True)]
        return weights, means, covariances

    return truth


def turned(
    d: int, k: int, distance: float, length: float
) -> Callable[[np.random.Generator], tuple[Any, Any, Any]]:
    """Clusters with a deviation of `length` in one direction, another for each, means at random."""

    def truth(rng: np.random.Generator) -> tuple[Any, Any, Any]:
        means = _at_random(rng, k, d, distance)
        variances = np.r_[length**2, np.ones(d - 1)]
        turns = [_rotation(rng, d) for _ in range(k)]
        return _even(k), means, [(t * variances) @ t.T for t in turns]

    return truth


def spiral(k: int) -> Callable[[np.random.Generator], tuple[Any, Any, Any]]:
    """Small components along two turns of a spiral."""

    def truth(rng: np.random.Generator) -> tuple[Any, Any, Any]:
        angles = np.linspace(1.0, 4.0 * np.pi, k)
        radial = np.column_stack([np.cos(angles), np.sin(angles)])
        along = radial + angles[:, None] * np.column_stack([-np.sin(angles), np.cos(angles)])
        along /= np.linalg.norm(along, axis=1, keepdims=True)
        covariances = [0.02 * np.eye(2) + 0.4 * np.outer(a, a) for a in along]
        return _even(k), angles[:, None] * radial, covariances

    return truth


def scaled(
    d: int, k: int, distance: float
) -> Callable[[np.random.Generator], tuple[Any, Any, Any]]:
    """Random mixtures with columns in units of 1e-3 to 1e3."""

    def truth(rng: np.random.Generator) -> tuple[Any, Any, Any]:
        units = np.logspace(-3.0, 3.0, d)
        weights, means, covariances = apart(d, distance, _even(k))(rng)
        return weights, means * units, [c * np.outer(units, units) for c in covariances]

    return truth


def background(
    d: int, k: int, share: float = 0.4, wide: float = 8.0
) -> Callable[[np.random.Generator], tuple[Any, Any, Any]]:
    """A wide component over k - 1 narrow ones."""

    def truth(rng: np.random.Generator) -> tuple[Any, Any, Any]:
        means = np.vstack([np.zeros(d), 0.8 * wide * rng.normal(size=(k - 1, d))])
        weights = np.r_[share, np.full(k - 1, (1.0 - share) / (k - 1))]
        return weights, means, [wide**2 * np.eye(d)] + [0.15 * np.eye(d)] * (k - 1)

    return truth


def factors(
    d: int, k: int, rank: int, distance: float
) -> Callable[[np.random.Generator], tuple[Any, Any, Any]]:
    """Covariances of random factors and a variance of 1/2 in all directions."""

    def truth(rng: np.random.Generator) -> tuple[Any, Any, Any]:
        means = _at_random(rng, k, d, distance)
        loadings = rng.normal(size=(k, d, rank))
        return _even(k), means, loadings @ loadings.swapaxes(1, 2) + 0.5 * np.eye(d)

    return truth


FEW = Construction(apart(4, 9.0, [0.005, 0.01, 0.2, 0.285, 0.5]), 20_000)
FIVE = Construction(apart(4, 7.0, _even(5)), 5000)
CONSTRUCTIONS = {
    "elongated, K=2, d=2": Construction(parallel(2, 2, length=10.0, distance=4.0), 2000),
    "elongated, K=2, d=2, 30 long": Construction(parallel(2, 2, length=30.0), 2000),
    "elongated, K=3, d=2": Construction(parallel(2, 3), 2000),
    "elongated, K=3, d=2, 10 long": Construction(parallel(2, 3, 10.0, 6.0), 2000),
    "elongated, K=5, d=2, 30 long": Construction(parallel(2, 5, 30.0, 4.0), 5000),
    "elongated, K=3, d=2, unequal": Construction(
        parallel(2, 3, weights=[0.7, 0.2, 0.1], lengths=[[12.0], [25.0], [18.0]]), 3000
    ),
    "elongated, K=2, d=10": Construction(parallel(10, 2, length=30.0), 5000),
    "elongated, K=3, d=10": Construction(parallel(10, 3), 5000),
    "elongated, K=5, d=10": Construction(parallel(10, 5, 10.0, 4.0), 5000),
    "elongated, K=3, d=10, 9 long": Construction(parallel(10, 3, 10.0, 5.0, 9), 5000),
    "elongated, K=5, d=10, 5 long": Construction(parallel(10, 5, 15.0, 6.0, 5), 5000),
    "elongated, K=4, d=10, unequal": Construction(
        parallel(10, 4, weights=[0.5, 0.3, 0.15, 0.05], lengths=[[10.0], [30.0], [15.0], [20.0]]),
        10_000,
    ),
    "crossed, K=2, d=2": Construction(crossed(2, 2, 10.0), 2000),
    "crossed, K=4, d=5": Construction(crossed(5, 4, 15.0), 5000),
    "sphered, K=3, d=10": Construction(sphered(10), 5000),
    "sphered, K=3, d=30": Construction(sphered(30), 10_000),
    "sphered, K=3, d=50": Construction(sphered(50), 20_000),
    "sphered, K=2, d=30": Construction(sphered(30, 2), 10_000),
    "sphered, K=2, d=50, 5 apart": Construction(sphered(50, 2, 5.0), 20_000),
    "sphered, K=2, d=30, unequal": Construction(sphered(30, 2, 6.0, [0.8, 0.2]), 10_000),
    "sphered, K=5, d=20": Construction(sphered(20, 5), 10_000),
    "polygon, K=3, d=30": Construction(polygon(30, 3, 5.0), 10_000),
    "polygon, K=6, d=20": Construction(polygon(20, 6, 7.0), 10_000),
    "nested, d=2": Construction(nested(2), 3000),
    "nested, d=10": Construction(nested(10), 3000),
    "nested, K=2, d=5, unequal": Construction(nested(5, (1.0, 4.0), [0.9, 0.1]), 3000),
    "nested, K=4, d=3": Construction(nested(3, (0.1, 0.5, 2.0, 8.0)), 5000),
    "grid of 25": Construction(grid(5), 5000),
    "grid of 36, uneven": Construction(grid(6, 2, 6.0, True), 10_000),
    "grid of 64, d=3": Construction(grid(4, 3, 5.0), 10_000),
    "grid of 100": Construction(grid(10), 20_000),
    "grid of 225, 5 apart": Construction(grid(15, 2, 5.0), 45_000),
    "grid of 400": Construction(grid(20), 80_000),
    "weights of 0.5% and 1%": FEW,
    "three weights of 0.5%, d=2": Construction(
        apart(2, 12.0, [0.005, 0.005, 0.005, 0.285, 0.3, 0.4]), 20_000
    ),
    "weight of 0.5%, d=10": Construction(apart(10, 8.0, [0.005, 0.295, 0.3, 0.4]), 20_000),
    "overlap, K=4, d=4": Construction(apart(4, 3.0, _even(4)), 20_000),
    "overlap, K=3, d=2": Construction(apart(2, 3.0, _even(3)), 20_000),
    "heavy tails, d=4": replace(FIVE, noise=student),
    "heavy tails, K=8, d=2": Construction(apart(2, 15.0, _even(8)), 5000, student),
    "heavy tails, K=3, d=10": Construction(apart(10, 6.0, _even(3)), 10_000, student),
    "three components more than truth": replace(FIVE, surplus=3),
    "ten components more than truth": replace(FIVE, n=20_000, surplus=10),
    "discrete values, steps of 0.5": replace(FIVE, step=0.5),
    "tied values, steps of 1": replace(FIVE, step=1.0),
    "tied values, steps of 2, d=8": Construction(apart(8, 9.0, _even(4)), 5000, step=2.0),
    "random, K=8, d=5": Construction(apart(5, 5.0, _even(8)), 10_000),
    "random, K=20, d=3": Construction(apart(3, 10.0, _even(20)), 10_000),
    "random, K=8, d=20": Construction(apart(20, 6.0, _even(8)), 20_000),
    "random orientation, K=4, d=5": Construction(turned(5, 4, 6.0, 8.0), 5000),
    "random orientation, K=8, d=5": Construction(turned(5, 8, 8.0, 6.0), 10_000),
    "random orientation, K=6, d=3, heavy tails": Construction(
        turned(3, 6, 10.0, 3.0), 5000, student
    ),
    "spiral of 16": Construction(spiral(16), 5000),
    "columns of 1e-3 to 1e3, K=5, d=7": Construction(scaled(7, 5, 6.0), 5000),
    "background, K=5, d=2": Construction(background(2, 5), 5000),
    "background, K=8, d=4": Construction(background(4, 8), 8000),
    "factors, K=4, d=12": Construction(factors(12, 4, 3, 5.0), 8000),
    "factors, equal means, K=3, d=8": Construction(factors(8, 3, 2, 0.0), 8000),
    "weights of 2%, K=6, d=20": Construction(
        apart(20, 9.0, [0.02, 0.02, 0.02, 0.31, 0.31, 0.32]), 10_000
    ),
}
