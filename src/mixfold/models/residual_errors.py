"""Models of the residual error: additive, proportional or combined."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from mixfold.core.rows import Array
from mixfold.core.statistics import pack, packed_length, unpack

LEAST_SHARE = 1e-3  # lower bound of proportional noise: that at this fraction of the largest y
LEAST_NOISE = 1e-6  # lower bound of noise relative to the size of observations
RIDGE, LONGEST_STEP, SWEEPS = 1e-6, 1.0, 5
TINY = np.finfo(np.float64).tiny


class ResidualError(ABC):
    """y ~ N(f, v(f)); statistics and scores are in the logarithms of the standard deviations.

    No deviation falls below LEAST_NOISE of the root mean square of observations.
    """

    n_noise: int
    n_statistics: int

    @abstractmethod
    def variance(self, noise: Array, f: Array, least: Array) -> tuple[Array, Array]:
        """v and its derivative in f; `least` is the smallest f that counts."""

    @abstractmethod
    def start(self, deviation: float, typical: float) -> Array:
        """Initial noise, from the deviation about a common curve and the size of observations."""

    @abstractmethod
    def statistics(self, noise: Array, y: Array, f: Array, least: Array, there: Array) -> Array:
        """The residual sums of every subject, (n, n_statistics)."""

    @abstractmethod
    def maximize(self, statistics: Array) -> tuple[Array, int]:
        """The noise of highest likelihood, and how many deviations were raised to the floor."""

    @abstractmethod
    def expected(self, noise: Array) -> Array:
        """Statistics of which `noise` is the maximiser."""

    @abstractmethod
    def scores(self, noise: Array, statistics: Array) -> Array:
        """The gradient in the logarithms of the noise, (n, n_noise)."""

    @abstractmethod
    def information(self, noise: Array, statistics: Array) -> Array:
        """The negative Hessian in the logarithms of the noise, or its expectation."""


class OneDeviation(ResidualError):
    """v = (noise * scaled)^2.

    Statistics are the sums of squared residuals and of squared observations, both scaled, and the
    number of observations.
    """

    n_noise = 1
    n_statistics = 3

    @abstractmethod
    def scaled(self, f: Array, least: Array) -> Array:
        """The factor of the noise."""

    def statistics(self, noise: Array, y: Array, f: Array, least: Array, there: Array) -> Array:
        scaled = self.scaled(f, least)
        sums = [there * np.square((y - f) / scaled), there * np.square(y / scaled), there]
        return np.stack([part.sum(axis=-1) for part in sums], axis=-1)

    def maximize(self, statistics: Array) -> tuple[Array, int]:
        square, size, n = np.maximum(statistics, TINY)
        return _floored(np.sqrt([square / n]), np.sqrt([size / n]))

    def expected(self, noise: Array) -> Array:
        return np.concatenate([np.square(noise), np.square(noise), np.ones(1)])

    def scores(self, noise: Array, statistics: Array) -> Array:
        return statistics[:, :1] / np.square(noise) - statistics[:, 2:]

    def information(self, noise: Array, statistics: Array) -> Array:
        return np.atleast_2d(2.0 * statistics[0] / np.square(noise))


def _floored(noise: Array, size: Array) -> tuple[Array, int]:
    """The noise raised to its floor, and how many deviations were below it."""
    floor = LEAST_NOISE * size
    return np.maximum(noise, floor), int((noise < (1.0 + RIDGE) * floor).sum())


class Additive(OneDeviation):
    """v = a^2."""

    def variance(self, noise: Array, f: Array, least: Array) -> tuple[Array, Array]:
        return np.full_like(f, noise[0] ** 2), np.zeros_like(f)

    def start(self, deviation: float, typical: float) -> Array:
        return np.array([max(deviation, 1e-3 * typical)])

    def scaled(self, f: Array, least: Array) -> Array:
        return np.ones_like(f)


class Proportional(OneDeviation):
    """v = (b f)^2."""

    def variance(self, noise: Array, f: Array, least: Array) -> tuple[Array, Array]:
        scaled = self.scaled(f, least)
        return np.square(noise[0] * scaled), np.where(f > least, 2.0 * noise[0] ** 2 * f, 0.0)

    def start(self, deviation: float, typical: float) -> Array:
        return np.array([0.3])

    def scaled(self, f: Array, least: Array) -> Array:
        return np.maximum(f, least)


class Combined(ResidualError):
    """v = a^2 + (b f)^2, by the EM gradient.

    Statistics are the expected negative Hessian H and the gradient g in the logarithms at the
    present noise; and, with the number of observations, these logarithms and squared observations.
    """

    n_noise = 2
    n_statistics = packed_length("full", 2) + 6

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
        n = there.sum(axis=-1, keepdims=True)
        size = (there * np.square(y)).sum(axis=-1, keepdims=True)
        return np.hstack([pack(h), gradient, n * np.log(noise), size, n])

    def maximize(self, statistics: Array) -> tuple[Array, int]:
        """A bounded scoring step from the mean of the logarithms, not below the floor."""
        h, (gradient, logs) = unpack(statistics[:3], 2), statistics[3:7].reshape(2, 2)
        square, n = np.maximum(statistics[7:], TINY)
        size, logs = np.array([np.sqrt(square / n), 1.0]), logs / n
        h = h + np.diag(RIDGE * np.diag(h) + TINY)
        lowest = np.clip(np.log(LEAST_NOISE * size) - logs, -LONGEST_STEP, 0.0)
        step = _bounded_step(h, gradient, lowest, np.full(2, LONGEST_STEP))
        return _floored(np.exp(logs + step), size)

    def expected(self, noise: Array) -> Array:
        size = np.square(noise[:1])
        return np.concatenate([pack(np.eye(2)), np.zeros(2), np.log(noise), size, np.ones(1)])

    def scores(self, noise: Array, statistics: Array) -> Array:
        return statistics[:, 3:5]

    def information(self, noise: Array, statistics: Array) -> Array:
        return unpack(statistics[:3], 2)


def _bounded_step(h: Array, gradient: Array, low: Array, high: Array) -> Array:
    """The highest point of <g, s> - <s, H s> / 2 in a box of two dimensions.

    If the unconstrained maximum is outside, each coordinate in turn is maximised within its bounds.
    """
    step = np.clip(np.linalg.solve(h, gradient), low, high)
    for i in (0, 1) * SWEEPS:
        free = (gradient[i] - h[i, 1 - i] * step[1 - i]) / h[i, i]
        step[i] = np.clip(free, low[i], high[i])
    return np.asarray(step)


ERRORS: dict[str, ResidualError] = {
    "additive": Additive(),
    "proportional": Proportional(),
    "combined": Combined(),
}
