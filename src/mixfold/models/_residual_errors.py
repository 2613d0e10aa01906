"""How observations scatter about a curve: additive, proportional or combined."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from mixfold.core.rows import Array
from mixfold.core.statistics import pack, packed_length, unpack

LEAST_SHARE = 1e-3  # proportional noise is not smaller than at this share of a unit's largest y
LARGEST_LOG = 20.0


class ResidualError(ABC):
    """y ~ N(f, v(f)); statistics and scores are in the logarithms of the standard deviations."""

    n_noise = 1
    n_statistics = 2

    @abstractmethod
    def variance(self, noise: Array, f: Array, least: Array) -> tuple[Array, Array]:
        """v and its derivative in f; `least` is the smallest f that counts."""

    @abstractmethod
    def start(self, deviation: float, typical: float) -> Array:
        """A first noise, from the deviation about a common curve and the size of observations."""

    def scaled(self, f: Array, least: Array) -> Array | float:
        """v(f) = (noise * scaled)^2 for errors with one standard deviation."""
        raise AssertionError("only errors with one standard deviation are scaled")

    def statistics(self, noise: Array, y: Array, f: Array, least: Array, there: Array) -> Array:
        """Sum of squared scaled residuals and number of observations, (n, 2)."""
        squares = np.square((y - f) / self.scaled(f, least))
        return np.stack([(there * squares).sum(axis=-1), there.sum(axis=-1)], axis=-1)

    def maximize(self, statistics: Array) -> Array:
        """The noise of highest likelihood."""
        floor = np.finfo(np.float64).tiny
        return np.sqrt(np.maximum(statistics[:1], floor) / np.maximum(statistics[1:], floor))

    def expected(self, noise: Array) -> Array:
        """Statistics of which `noise` is the maximiser."""
        return np.concatenate([np.square(noise), np.ones(1)])

    def scores(self, noise: Array, statistics: Array) -> Array:
        """The gradient in the logarithms of the noise, (n, n_noise)."""
        return statistics[:, :1] / np.square(noise) - statistics[:, 1:]

    def information(self, noise: Array, statistics: Array) -> Array:
        """The negative Hessian in the logarithms of the noise."""
        return np.atleast_2d(2.0 * statistics[0] / np.square(noise))


class Additive(ResidualError):
    """v = a^2."""

    def variance(self, noise: Array, f: Array, least: Array) -> tuple[Array, Array]:
        return np.full_like(f, noise[0] ** 2), np.zeros_like(f)

    def start(self, deviation: float, typical: float) -> Array:
        return np.array([max(deviation, 1e-3 * typical)])

    def scaled(self, f: Array, least: Array) -> float:
        return 1.0


class Proportional(ResidualError):
    """v = (b f)^2."""

    def variance(self, noise: Array, f: Array, least: Array) -> tuple[Array, Array]:
        scaled = self.scaled(f, least)
        return np.square(noise[0] * scaled), np.where(f > least, 2.0 * noise[0] ** 2 * f, 0.0)

    def start(self, deviation: float, typical: float) -> Array:
        return np.array([0.3])

    def scaled(self, f: Array, least: Array) -> Array:
        return np.maximum(f, least)


class Combined(ResidualError):
    """v = a^2 + (b f)^2, by the EM gradient: H and b = H log(noise) + g of the present noise."""

    n_noise = 2
    n_statistics = packed_length("full", 2) + 2

    def start(self, deviation: float, typical: float) -> Array:
        return np.array([0.5 * max(deviation, 1e-3 * typical), 0.15])

    def variance(self, noise: Array, f: Array, least: Array) -> tuple[Array, Array]:
        squares = np.square(noise)
        return squares[0] + squares[1] * np.square(f), 2.0 * squares[1] * f

    def statistics(self, noise: Array, y: Array, f: Array, least: Array, there: Array) -> Array:
        v, _ = self.variance(noise, f, least)
        # derivatives of log v / 2 in both logarithms
        share = np.stack([np.square(noise[0]) / v, np.square(noise[1] * f) / v], axis=-1)
        excess = there * (np.square(y - f) / v - 1.0)
        gradient = (share * excess[..., None]).sum(axis=-2)
        weighted = share * there[..., None]
        h = 2.0 * (weighted[..., :, None] * share[..., None, :]).sum(axis=-3)
        return np.hstack([pack(h), (h * np.log(noise)).sum(axis=-1) + gradient])

    def maximize(self, statistics: Array) -> Array:
        h = unpack(statistics[:3], 2)
        h += np.eye(2) * (1e-10 * np.trace(h) + np.finfo(np.float64).tiny)
        logs = np.linalg.solve(h, statistics[3:])
        return np.asarray(np.exp(np.clip(logs, -LARGEST_LOG, LARGEST_LOG)))

    def expected(self, noise: Array) -> Array:
        return np.concatenate([pack(np.eye(2)), np.log(noise)])

    def scores(self, noise: Array, statistics: Array) -> Array:
        h = unpack(statistics[:, :3], 2)
        return np.asarray(statistics[:, 3:] - (h * np.log(noise)).sum(axis=-1))

    def information(self, noise: Array, statistics: Array) -> Array:
        return unpack(statistics[:3], 2)


ERRORS: dict[str, ResidualError] = {
    "additive": Additive(),
    "proportional": Proportional(),
    "combined": Combined(),
}
