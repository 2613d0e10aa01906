"""The four covariance structures of Gaussian components.

A scale is a lower Cholesky factor, (K, d, d) or (1, d, d) if shared, or standard deviations, (K, d)
or (K, 1). Broadcasting makes the arithmetic the same for all shapes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import HIGHEST, LOWEST, check_array
from mixfold.core.eigenvalue_floors import raise_eigenvalues
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import n_components_with
from mixfold.core.rows import Array
from mixfold.core.statistics import Scatter, lower_mask, unpack

ROUNDING = 1e-12


def cholesky_floored(covariance: Array, floor: Array) -> tuple[Array, int]:
    """Cholesky factors of (K, d, d) whose pivots stay above `floor` (d,).

    A pivot is the variance of a column given those before it. Where it falls to the floor the
    column is made independent of the later ones. Returns the factors and how many were degenerate.
    """
    try:
        scale = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    except np.linalg.LinAlgError:
        return _raise_pivots(covariance, floor)
    pivots = np.square(np.diagonal(scale, axis1=1, axis2=2))
    return (scale, 0) if bool((pivots > floor).all()) else _raise_pivots(covariance, floor)


def _raise_pivots(covariance: Array, floor: Array) -> tuple[Array, int]:
    scale = np.zeros_like(covariance)
    degenerate = np.zeros(len(covariance), dtype=bool)
    for j in range(covariance.shape[1]):
        done = scale[:, j, :j]
        pivot = covariance[:, j, j] - np.square(done).sum(axis=1)
        healthy = pivot > floor[j]
        degenerate |= ~healthy
        scale[:, j, j] = np.sqrt(np.where(healthy, pivot, floor[j]))
        below = covariance[:, j + 1 :, j] - np.einsum("kij,kj->ki", scale[:, j + 1 :, :j], done)
        scale[:, j + 1 :, j] = np.where(healthy[:, None], below / scale[:, j, j, None], 0.0)
    return scale, int(degenerate.sum())


def lower_root(root: Array) -> Array:
    """The lower triangular L with LL' = RR', of roots R (K, m, n) with n >= m.

    By rotations of R, so that digits are not lost in products as they are in RR'.
    """
    upper = np.asarray(np.linalg.qr(root.swapaxes(1, 2), mode="r"), dtype=np.float64)
    sign = np.where(np.diagonal(upper, axis1=1, axis2=2) < 0.0, -1.0, 1.0)
    return np.ascontiguousarray(np.tril((upper * sign[:, :, None]).swapaxes(1, 2)))


def regularized(covariance: Array, reg: float) -> Array:
    """Matrices (K, d, d) with `reg` added to every variance."""
    return covariance + reg * np.eye(covariance.shape[1]) if reg else covariance


def widened(covariance: Array, least: float) -> Array:
    """Matrices (K, d, d) with no eigenvalue below `least`; those that have none are kept."""
    if not least > 0.0:
        return covariance
    return raise_eigenvalues(covariance, least, tolerance=ROUNDING)[0]


def check_positive_definite(matrices: Array) -> None:
    """Refuse precisions that are not symmetric and positive-definite."""
    symmetric = np.allclose(matrices, matrices.swapaxes(-1, -2))
    if not (symmetric and (np.linalg.eigvalsh(matrices) > 0.0).all()):
        raise ValueError("'precisions' should be symmetric, positive-definite")


def check_lower(name: str, factors: Array, shape: tuple[int, ...], high: float = HIGHEST) -> None:
    """Refuse what are not lower triangular matrices with a positive diagonal."""
    check_array(name, factors, shape, -high, high)
    pivots = np.diagonal(factors, axis1=-2, axis2=-1)
    check_array(f"the diagonal of {name}", pivots, shape[:-1], LOWEST, high)
    if factors[..., ~lower_mask(shape[-1])].any():
        raise InvalidInputError(f"{name} is not lower triangular")


class Covariance(ABC):
    """The structure of the covariances of K components."""

    form: Literal["triangular", "diagonal"]
    scatter: Scatter
    shares = False  # whether all components have one covariance

    @abstractmethod
    def factorize(
        self, weight: Array, scatter: Array, reg: float, least: float, floor: Array
    ) -> tuple[Array, int]:
        """The scale of the structured covariance nearest to the scatter; count degenerate ones.

        No direction has a variance below `least`, which does not count as degenerate.
        """

    def undetermined(self, counts: Array, d: int) -> NDArray[np.bool_]:
        """Which components have too few rows, where their variances may stay above the floors."""
        return np.zeros(len(counts), dtype=bool)

    @abstractmethod
    def check(self, scale: Array, k: int, d: int) -> None:
        """Refuse what is not the scale of K positive definite covariances."""

    @abstractmethod
    def widened(self, scale: Array, least: float) -> Array:
        """The scale with no direction's variance below `least`."""

    @abstractmethod
    def covariances(self, scale: Array) -> Array:
        """Covariances in scikit-learn's shape for this structure."""

    @abstractmethod
    def from_covariances(self, covariances: Array) -> Array:
        """The scale of covariances given in scikit-learn's shape."""

    @abstractmethod
    def from_precision_roots(self, roots: Array) -> Array:
        """The scale from scikit-learn's `precisions_cholesky_`."""

    @abstractmethod
    def from_precisions(self, precisions: Array) -> Array:
        """The scale from precisions in scikit-learn's shape."""

    @abstractmethod
    def scale_shape(self, k: int, d: int) -> tuple[int, ...]:
        """The shape of the scale."""

    def shared(self, per_component: Array) -> Array:
        """One of K equal arrays if components share it, else all."""
        return per_component

    @abstractmethod
    def n_parameters(self, k: int, d: int) -> int:
        """Free parameters."""

    @abstractmethod
    def covariance_shape(self, k: int, d: int) -> tuple[int, ...]:
        """scikit-learn's shape."""


class Triangular(Covariance):
    """Structures with a full matrix."""

    form = "triangular"
    scatter: Scatter = "full"

    def check(self, scale: Array, k: int, d: int) -> None:
        check_lower("scale", scale, self.scale_shape(k, d))

    def widened(self, scale: Array, least: float) -> Array:
        covariance = scale @ scale.swapaxes(1, 2)
        wide = widened(covariance, least)
        if wide is covariance:
            return scale
        changed = (wide != covariance).any(axis=(1, 2))
        return np.where(changed[:, None, None], np.linalg.cholesky(wide), scale)

    def from_precision_roots(self, roots: Array) -> Array:
        return np.tril(np.linalg.inv(roots.swapaxes(-1, -2))).reshape(-1, *roots.shape[-2:])

    def from_precisions(self, precisions: Array) -> Array:
        check_positive_definite(precisions)
        inverse = np.asarray(np.linalg.inv(precisions), dtype=np.float64)
        return self.from_covariances(inverse)


class Full(Triangular):
    """A matrix per component."""

    def factorize(
        self, weight: Array, scatter: Array, reg: float, least: float, floor: Array
    ) -> tuple[Array, int]:
        covariance = regularized(unpack(scatter, len(floor)), reg)
        return cholesky_floored(widened(covariance, least), floor)

    def covariances(self, scale: Array) -> Array:
        return np.asarray(scale @ scale.swapaxes(1, 2))

    def from_covariances(self, covariances: Array) -> Array:
        return np.asarray(np.linalg.cholesky(covariances), dtype=np.float64)

    def scale_shape(self, k: int, d: int) -> tuple[int, ...]:
        return (k, d, d)

    def n_parameters(self, k: int, d: int) -> int:
        return k * d * (d + 1) // 2

    def covariance_shape(self, k: int, d: int) -> tuple[int, ...]:
        return (k, d, d)


class Tied(Triangular):
    """One matrix for all."""

    shares = True

    def shared(self, per_component: Array) -> Array:
        return per_component[:1]

    def factorize(
        self, weight: Array, scatter: Array, reg: float, least: float, floor: Array
    ) -> tuple[Array, int]:
        pooled = (weight / weight.sum()) @ scatter
        covariance = regularized(unpack(pooled[None], len(floor)), reg)
        return cholesky_floored(widened(covariance, least), floor)

    def covariances(self, scale: Array) -> Array:
        return np.asarray(scale[0] @ scale[0].T)

    def from_covariances(self, covariances: Array) -> Array:
        return np.asarray(np.linalg.cholesky(covariances)[None], dtype=np.float64)

    def scale_shape(self, k: int, d: int) -> tuple[int, ...]:
        return (1, d, d)

    def n_parameters(self, k: int, d: int) -> int:
        return d * (d + 1) // 2

    def covariance_shape(self, k: int, d: int) -> tuple[int, ...]:
        return (d, d)


class Diagonal(Covariance):
    """Structures with variances only."""

    form = "diagonal"
    scatter: Scatter = "diag"

    def check(self, scale: Array, k: int, d: int) -> None:
        check_array("scale", scale, self.scale_shape(k, d), LOWEST)

    def widened(self, scale: Array, least: float) -> Array:
        return np.maximum(scale, np.sqrt(least))

    def from_precision_roots(self, roots: Array) -> Array:
        return (1.0 / roots).reshape(len(roots), -1)

    def from_precisions(self, precisions: Array) -> Array:
        if (precisions <= 0).any():
            raise ValueError("'precisions' should be positive")
        return self.from_precision_roots(np.sqrt(precisions))

    def _floored(self, variance: Array, floor: Array) -> tuple[Array, int]:
        healthy = variance > floor
        scale = np.sqrt(np.where(healthy, variance, floor))
        return scale, n_components_with(~healthy)


class Diag(Diagonal):
    """A variance per component and column."""

    def factorize(
        self, weight: Array, scatter: Array, reg: float, least: float, floor: Array
    ) -> tuple[Array, int]:
        return self._floored(np.maximum(scatter + reg, least), floor)

    def covariances(self, scale: Array) -> Array:
        return np.square(scale)

    def from_covariances(self, covariances: Array) -> Array:
        return np.sqrt(covariances)

    def scale_shape(self, k: int, d: int) -> tuple[int, ...]:
        return (k, d)

    def n_parameters(self, k: int, d: int) -> int:
        return k * d

    def covariance_shape(self, k: int, d: int) -> tuple[int, ...]:
        return (k, d)


class Spherical(Diagonal):
    """A variance per component."""

    def shared(self, per_component: Array) -> Array:
        return per_component[:, :1]

    def factorize(
        self, weight: Array, scatter: Array, reg: float, least: float, floor: Array
    ) -> tuple[Array, int]:
        variance = np.maximum(scatter.mean(axis=1, keepdims=True) + reg, least)
        return self._floored(variance, floor.mean(keepdims=True))

    def covariances(self, scale: Array) -> Array:
        return np.square(scale[:, 0])

    def from_covariances(self, covariances: Array) -> Array:
        return np.sqrt(covariances)[:, None]

    def scale_shape(self, k: int, d: int) -> tuple[int, ...]:
        return (k, 1)

    def n_parameters(self, k: int, d: int) -> int:
        return k

    def covariance_shape(self, k: int, d: int) -> tuple[int, ...]:
        return (k,)


STRUCTURES: dict[str, Covariance] = {
    "full": Full(),
    "tied": Tied(),
    "diag": Diag(),
    "spherical": Spherical(),
}
