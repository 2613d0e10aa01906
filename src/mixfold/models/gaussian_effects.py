"""The Gaussian distribution of the random effects, and its scores and information."""

from __future__ import annotations

from typing import Literal

import numpy as np

from mixfold.core.eigenvalue_floors import raise_eigenvalues
from mixfold.core.rows import Array
from mixfold.core.statistics import lower_triangle

Structure = Literal["full", "diag"]

LEAST_VARIANCE = 1e-8


class GaussianEffects:
    """z ~ N(mean, Omega) with a full or a diagonal Omega.

    Products with its small matrices are written as sums over the last axis, so that the results of
    a subject do not depend on the other subjects, to the bit.
    """

    def __init__(self, mean: Array, covariance: Array, structure: Structure) -> None:
        self.mean, self.structure = mean, structure
        self.precision = np.linalg.inv(covariance)
        tril = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
        self.tril, self.deviation = tril, np.sqrt(np.diag(covariance))
        self._whiten = np.linalg.inv(tril)
        self._constant = -float(np.log(np.diag(tril)).sum()) - 0.5 * len(mean) * np.log(2 * np.pi)
        self._i, self._j = entries(len(mean), structure)

    def at(self, white: Array) -> Array:
        """Effects from independent standard normal numbers, (..., q)."""
        return np.asarray(self.mean + (white[..., None, :] * self.tril).sum(axis=-1))

    def log_density(self, z: Array) -> Array:
        """log p(z), (...)."""
        white = ((z - self.mean)[..., None, :] * self._whiten).sum(axis=-1)
        return np.asarray(self._constant - 0.5 * np.square(white).sum(axis=-1))

    def slope(self, z: Array) -> Array:
        """The gradient of log p(z) in the mean, (..., q); in z it is its negative."""
        return np.asarray(((z - self.mean)[..., None, :] * self.precision).sum(axis=-1))

    def scores(self, z: Array) -> Array:
        """The gradient of log p(z) in the mean and the entries of Omega, (n, q + c)."""
        slope = self.slope(z)
        i, j = self._i, self._j
        twice = np.where(i == j, 0.5, 1.0)
        return np.hstack([slope, twice * (slope[:, i] * slope[:, j] - self.precision[i, j])])

    def information(self, first: Array, second: Array, count: float) -> Array:
        """The negative Hessian of sum log p(z), from the sums of z - mean and of its square."""
        q, p = len(self.mean), self.precision
        directions = np.zeros((len(self._i), q, q))
        number = np.arange(len(self._i))
        directions[number, self._i, self._j] = directions[number, self._j, self._i] = 1.0
        rotated = p @ directions
        cross = np.einsum("aij,jk,k->ia", rotated, p, first)
        inner = np.einsum("aij,bji->ab", rotated, rotated @ (p @ second - 0.5 * count * np.eye(q)))
        return np.block([[count * p, cross], [cross.T, 0.5 * (inner + inner.T)]])


def entries(q: int, structure: Structure) -> tuple[np.ndarray, np.ndarray]:
    """Row and column numbers of the free entries of Omega."""
    return lower_triangle(q) if structure == "full" else (np.arange(q), np.arange(q))


def raise_to_floor(
    covariance: Array, structure: Structure, least: float = LEAST_VARIANCE, share: float = 0.0
) -> tuple[Array, int]:
    """A covariance with no eigenvalue below `least`, and how many of them were.

    Those of a full matrix are not below `share` times the largest either.
    """
    if structure == "diag":
        covariance, share = np.diag(np.diag(covariance)), 0.0
    raised, low = raise_eigenvalues(covariance, least, share)
    return raised, int(low)


def log_cholesky(covariance: Array) -> Array:
    """Coordinates in which every vector is a covariance: its factor, logarithms on the diagonal."""
    tril = np.linalg.cholesky(covariance)
    tril[np.diag_indices(len(tril))] = np.log(np.diag(tril))
    return np.asarray(tril[lower_triangle(len(tril))], dtype=np.float64)


def from_log_cholesky(coordinates: Array, q: int) -> Array:
    """The inverse of `log_cholesky`."""
    tril = np.zeros((q, q))
    tril[lower_triangle(q)] = coordinates
    tril[np.diag_indices(q)] = np.exp(np.diag(tril))
    return tril @ tril.T
