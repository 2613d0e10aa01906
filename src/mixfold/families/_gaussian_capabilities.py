"""Capabilities of Gaussians with covariance matrices, for initializers, learners, kernels."""

from __future__ import annotations

from abc import abstractmethod
from functools import cache
from typing import Literal

import numpy as np

from mixfold.core.capabilities import DevicePasses, KernelTerm, RowUpdates, Whitened
from mixfold.core.column_means import MeansAreAttributes
from mixfold.core.limits import LEAST_VARIANCE
from mixfold.core.rows import Array
from mixfold.core.statistics import Block, Blocks, lower_mask, outer_like, packed_diagonal
from mixfold.core.variance_floors import ROUNDING
from mixfold.families._centred_moments import CentredMoments
from mixfold.families._covariance import STRUCTURES, Covariance
from mixfold.families._covariance_shapes import SAME, structure_of
from mixfold.families._gaussian_params import GaussianParams
from mixfold.families._variance_limits import VarianceLimits
from mixfold.families.factor_analysis import LOG_2PI

# Rows of the prior per component, for each free parameter of the scales and divided by the number
# of rows. It was chosen by the likelihood of held-out rows of small tables. Numbers that do not
# depend on n, such as d + 2, were worse on iris and thyroid with 3 components, and with discrete
# columns.
PRIOR_ROWS = 2.0
# Number of rows above which it falls with the cube of n. The covariance of all rows is many times
# that of components that are far apart: with 8,000 images of fashion_mnist in 30 columns, 0.15
# rows of it cost 0.4 nats per row and 2% of the held-out gain.
SMALL_TABLE = 1000.0
TIMES_ROBUST = 10.0  # the largest multiple of robust variances in the prior
ON_DEVICES = ("full", "diag", "spherical")  # structures whose M-steps can be made on a device
SMALLEST = 1e-300  # weight of a component without rows


def for_each(shared: Array, shape: tuple[int, ...]) -> Array:
    """One array per component, copied where components share it."""
    return shared if shared.shape == shape else np.array(np.broadcast_to(shared, shape))


@cache
def _below_diagonal(d: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the entries below the diagonal of a (d, d) matrix."""
    return np.tril_indices(d, -1)


class GaussianCapabilities(
    MeansAreAttributes, VarianceLimits[GaussianParams], CentredMoments[GaussianParams]
):
    """Coordinates, bounds, kernels and shapes of covariances; the rest is in `Gaussian`."""

    covariance: str

    @property
    def structure(self) -> Covariance:
        """The covariance structure."""
        found = structure_of(self.covariance)
        assert found is not None
        return found

    @property
    def structure_name(self) -> str | None:
        """scikit-learn's name of the structure; None if components share parts of a covariance."""
        name = SAME.get(self.covariance, self.covariance)
        return name if name in STRUCTURES else None

    @property
    def least_variance(self) -> float:
        """The variance that a cap allows; zero without one."""
        return 0.0 if self.cap is None else 1.0 / self.cap

    @abstractmethod
    def standard_deviations(self, params: GaussianParams) -> Array:
        """Of columns, (K, d)."""

    # unconstrained coordinates, blends and bounds

    @property
    def has_coordinates(self) -> bool:
        """Whether there are some; parts that components share have none."""
        return self.structure_name is not None

    def unconstrained(self, params: GaussianParams) -> Array:
        (k, d), scale = params.means.shape, params.scale
        found = np.empty((k, d + self._n_coordinates(scale)))
        found[:, :d] = params.means
        if scale.ndim == 2:
            found[:, d:] = np.log(scale)
            return found
        pivots, (i, j) = scale.diagonal(axis1=1, axis2=2), _below_diagonal(d)
        found[:, d : 2 * d] = np.log(pivots)
        found[:, 2 * d :] = scale[:, i, j] / pivots[:, i]
        return found

    @staticmethod
    def _n_coordinates(scale: Array) -> int:
        """The number of coordinates of the scale of a component."""
        d = int(scale.shape[1])
        return d if scale.ndim == 2 else d * (d + 1) // 2

    def constrained(self, coordinates: Array, like: GaussianParams) -> GaussianParams:
        d = like.means.shape[1]
        means, shape = coordinates[:, :d], coordinates[: len(like.scale), d:]
        return GaussianParams(
            means.copy(),
            self.structure.widened(self._scale(shape, like.scale), self.least_variance),
        )

    def _scale(self, shape: Array, like: Array) -> Array:
        if like.ndim == 2:
            return np.exp(shape)
        d = like.shape[1]
        pivots, (i, j) = np.exp(shape[:, :d]), _below_diagonal(d)
        scale = np.zeros_like(like)
        scale[:, np.arange(d), np.arange(d)] = pivots
        scale[:, i, j] = shape[:, d:] * pivots[:, i]
        return scale

    def coordinate_scales(self, params: GaussianParams) -> Array:
        k, d = params.means.shape
        scales = np.ones((k, d + self._n_coordinates(params.scale)))
        scales[:, :d] = self.standard_deviations(params)
        return scales

    def blend(self, a: GaussianParams, b: GaussianParams, t: float) -> GaussianParams:
        covariance = self.structure.covariances
        mixed = (1.0 - t) * covariance(a.scale) + t * covariance(b.scale)
        means = (1.0 - t) * a.means + t * b.means
        return GaussianParams(means, self.structure.from_covariances(mixed))

    def parameter_bounds(self, params: GaussianParams) -> tuple[float, float, float]:
        eigenvalues = (
            np.square(np.linalg.svd(params.scale, compute_uv=False))
            if (params.scale.ndim == 3)
            else np.square(params.scale)
        )
        location = float(np.abs(params.means).max())
        return location, float(eigenvalues.min()), float(eigenvalues.max())

    # initialisers

    def around(self, centers: Array, x: Array, weight: Array) -> GaussianParams:
        (whole,) = self.blocks_of(x, weight[:, None])
        # two components whose means vary as much as the K centres have the same scale
        means = centers.mean(axis=0) + np.outer([-1.0, 1.0], centers.std(axis=0))
        scatter = np.repeat(whole.scatter, 2, axis=0)
        two, _ = self.maximize((Block(np.full(2, 0.5), means, scatter),))
        number = 1 if len(two.scale) == 1 else len(centers)  # one if components share it
        return GaussianParams(centers, np.repeat(two.scale[:1], number, axis=0))

    def at_cap(self, params: GaussianParams) -> GaussianParams:
        if self.cap is None:
            return params
        scale = np.full_like(params.scale, np.sqrt(self.least_variance))
        if scale.ndim == 3:
            scale *= np.eye(scale.shape[1])
        return GaussianParams(params.means, scale)

    def root_shape(self, d: int) -> tuple[int, ...] | None:
        if self.structure_name == "full":
            return (d, d) if self.cap is None else None
        return (d,) if self.structure_name == "diag" else None

    # a weak prior

    def prior_params(self, blocks: Blocks) -> GaussianParams:
        """Components whose covariance is that of all rows, divided by K^(2/d).

        Where the variance of a column is many times its robust variance, the column is scaled down,
        so that a few far rows do not widen all components.
        """
        (block,) = blocks
        k, d = block.mean.shape
        normalized = block.weight / block.weight.sum()
        centre, length = normalized @ block.mean, block.scatter.shape[1]
        spread = normalized @ (block.scatter + outer_like(block.mean - centre, length))
        if self.column_variances is not None:
            spread = spread * outer_like(self._shrinkage(spread), length)
        scatter = np.tile(spread / k ** (2.0 / d), (k, 1))
        return self.maximize((Block(np.ones(k), np.tile(centre, (k, 1)), scatter),))[0]

    def _shrinkage(self, spread: Array) -> Array:
        """Factors of the columns' deviations, from packed covariances of all rows."""
        assert self.column_variances is not None
        d = len(self.column_variances)
        variances = spread if len(spread) == d else spread[packed_diagonal(d)]
        most = np.maximum(TIMES_ROBUST * self.column_variances, LEAST_VARIANCE)
        return np.sqrt(np.minimum(1.0, most / np.maximum(variances, LEAST_VARIANCE)))

    def shrunk(self, blocks: Blocks, prior: GaussianParams, rows: float) -> Blocks:
        (block,) = blocks
        (whole,) = self.expected(prior, block.weight)
        weight = block.weight
        if len(prior.scale) == 1:  # a common covariance has the rows of all components
            weight = np.full_like(weight, weight.mean())
        return (block.shrunk(whole, weight / np.maximum(weight + rows, SMALLEST), 0.0),)

    def prior_rows(self, k: int, d: int, n: float) -> float:
        rows = PRIOR_ROWS * self.structure.n_parameters(k, d) / n
        return float(rows * min(1.0, SMALL_TABLE / n) ** 2)

    def prior_divergence(self, prior: GaussianParams, params: GaussianParams) -> Array:
        d, whiten = prior.means.shape[1], self.whiten(params)
        spread = whiten * prior.scale if whiten.ndim == 2 else whiten @ prior.scale
        square = np.square(spread).reshape(len(spread), -1).sum(axis=1)
        logs = self.log_determinant(params) - self.log_determinant(prior)
        return np.asarray(0.5 * (square - d) + logs)

    # kernels

    def whiten(self, params: GaussianParams) -> Array:
        """Inverse scales: (K, d, d) lower triangular, or (K, d)."""
        k, d = params.means.shape
        if params.scale.ndim == 2:
            return for_each(1.0 / params.scale, (k, d))
        diagonal = np.diagonal(params.scale, axis1=1, axis2=2)
        unit = params.scale / diagonal[:, :, None]
        inverse = np.where(lower_mask(d), np.linalg.inv(unit), 0.0) / diagonal[:, None, :]
        return for_each(inverse, (k, d, d))

    def log_determinant(self, params: GaussianParams) -> Array:
        """log of the determinant of the scales, (K,)."""
        k, d = params.means.shape
        diagonal = params.scale
        if diagonal.ndim == 3:
            diagonal = np.diagonal(diagonal, axis1=1, axis2=2)
        return np.asarray(np.log(for_each(diagonal, (k, d))).sum(axis=1))

    @property
    def form(self) -> Literal["triangular", "diagonal"]:
        return self.structure.form

    def whitened(self, params: GaussianParams) -> Whitened:
        return Whitened(params.means, self.whiten(params), self.log_determinant(params))

    def kernel_term(self, params: GaussianParams) -> KernelTerm | None:
        k, d = params.means.shape
        if d != 1:
            return None
        found, deviations = np.empty((k, 3)), params.scale.reshape(-1)  # one if all share it
        found[:, 0] = -0.5 * LOG_2PI - np.log(deviations)
        found[:, 1], found[:, 2] = params.means[:, 0], 1.0 / deviations
        return KernelTerm("normal", found)

    @property
    def row_updates(self) -> RowUpdates | None:
        name = self.structure_name
        if name is None or (self.form == "triangular" and self.cap is not None):
            return None  # no compiled kernel shares parts of matrices, or bounds their eigenvalues
        limits = self.reg_covar, self.least_variance
        return RowUpdates(name, self.floor_share, *limits, ROUNDING, self.column_floors)

    @property
    def device_passes(self) -> DevicePasses | None:
        if self.structure_name not in ON_DEVICES or self.cap is not None:
            return None
        limits = self.floor_share, self.reg_covar, self.lowest_variances
        return DevicePasses(self.structure_name, *limits)

    def to_arrays(self, params: GaussianParams) -> tuple[Array, Array]:
        return params.means, params.scale

    def from_arrays(self, means: Array, scale: Array) -> GaussianParams:
        return GaussianParams(means, scale)

    # estimators: covariances and precisions in scikit-learn's shapes

    def covariances(self, params: GaussianParams) -> Array:
        """Covariances in scikit-learn's shape for this structure."""
        return self.structure.covariances(params.scale)

    def from_covariances(self, means: Array, covariances: Array) -> GaussianParams:
        """Parameters from covariances in that shape."""
        return GaussianParams(means, self.structure.from_covariances(covariances))

    def covariance_shape(self, k: int, d: int) -> tuple[int, ...]:
        """That shape."""
        return self.structure.covariance_shape(k, d)

    def precision_roots(self, params: GaussianParams) -> Array:
        """scikit-learn's `precisions_cholesky_`."""
        whiten = self.whiten(params)
        if whiten.ndim == 3:
            whiten = whiten.swapaxes(1, 2)
        return self.structure.shared(whiten).reshape(self.covariance_shape(*params.means.shape))

    def from_precision_roots(self, means: Array, roots: Array) -> GaussianParams:
        """The inverse of `precision_roots`."""
        return GaussianParams(means, self.structure.from_precision_roots(roots))

    def from_precisions(self, means: Array, precisions: Array) -> GaussianParams:
        """Parameters from precisions in scikit-learn's shape."""
        return GaussianParams(means, self.structure.from_precisions(precisions))
