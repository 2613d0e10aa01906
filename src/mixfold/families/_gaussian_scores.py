"""Scores of Gaussians, in coordinates in which a component is a standard normal distribution."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks, lower_triangle, outer_like, unpack
from mixfold.families._gaussian_params import GaussianParams
from mixfold.families._shown_parameters import ShownParameter, StatisticScores, grid, wide
from mixfold.families.gaussian import Gaussian

SERVED = ("full", "tied", "diag", "spherical")


class GaussianScores(StatisticScores):
    """mean = mu + L a and covariance = L (I + B) L', at a = 0 and B = 0.

    With z = L^-1 (x - mu), the score of a is z, that of B_ij is z_i z_j, and that of B_ii is
    (z_i^2 - 1) / 2: no digits are lost for rows far from zero. Diagonal covariances have the
    diagonal of B alone.
    """

    def __init__(
        self, family: Gaussian, params: GaussianParams, limited: NDArray[np.bool_]
    ) -> None:
        self.family, self.params, self._limited = family, params, limited
        k, d = params.means.shape
        full = family.scatter == "full"
        self._i, self._j = lower_triangle(d) if full else (np.arange(d), np.arange(d))
        means = np.arange(k * d).reshape(k, d)
        n_pairs = len(self._i)
        pairs = (
            k * d
            + {
                "full": np.arange(k * n_pairs).reshape(k, n_pairs),
                "diag": np.arange(k * n_pairs).reshape(k, n_pairs),
                "tied": np.tile(np.arange(n_pairs), (k, 1)),
                "spherical": np.tile(np.arange(k)[:, None], (1, n_pairs)),
            }[family.structure_name or ""]
        )
        super().__init__(np.hstack([means, pairs]), int(pairs.max()) + 1)

    @property
    def pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.bool_]]:
        """Which products of z follow z in the coordinates, and which of them are squares."""
        return self._i, self._j, self._i == self._j

    def scores(self, x: Array) -> Array:
        z = self.family.centred(self.params, x)
        products = z[:, :, self._i] * z[:, :, self._j]
        same = self._i == self._j
        products[:, :, same] = 0.5 * (products[:, :, same] - 1.0)
        return np.concatenate([z, products], axis=2)

    @property
    def columns(self) -> NDArray[np.intp] | None:
        d = self.params.means.shape[1]
        return np.tile(np.arange(d), 2) if self.family.columns_are_independent else None

    def information(self) -> Array:
        k, d = self.params.means.shape
        squares = np.where(self._i == self._j, 0.5, 1.0)
        return np.tile(np.diag(np.concatenate([np.ones(d), squares])), (k, 1, 1))

    @property
    def has_steps(self) -> bool:
        return self.family.reg_covar == 0.0 and self.family.cap is None

    def totals(self, params: GaussianParams, blocks: Blocks) -> Array:
        (block,) = blocks
        z, scatter = self.family.to_centred(params, block.mean, block.scatter)
        products, each = scatter + outer_like(z, scatter.shape[1]), wide(block.weight)
        same = self._i == self._j
        products[:, same] = 0.5 * (products[:, same] - 1.0)
        return np.asarray(np.hstack([each * z, each * products]))

    def moved(self, params: GaussianParams, change: Array) -> GaussianParams:
        """I + B + B^2 / 2, which is positive definite for every B, in place of I + B."""
        d, scale = params.means.shape[1], params.scale
        a, b = change[:, :d], change[: len(scale), d:]
        if scale.ndim == 2:
            wider = np.sqrt(1.0 + b + 0.5 * np.square(b))
            return GaussianParams(params.means + scale * a, scale * wider[:, : scale.shape[1]])
        square = unpack(b, d) + np.eye(d)
        root = np.linalg.cholesky(0.5 * (square @ square + np.eye(d)))
        return GaussianParams(params.means + (scale @ a[:, :, None])[:, :, 0], scale @ root)

    def shown(self) -> list[ShownParameter]:
        covariances = {
            "full": self._matrices,
            "tied": self._matrices,
            "diag": self._variances,
            "spherical": self._common_variances,
        }[self.family.structure_name or ""]()
        return [self._means(), *covariances]

    def _means(self) -> ShownParameter:
        k, d = self.params.means.shape
        where = grid(k, d)
        return ShownParameter(
            "means",
            self.params.means.ravel(),
            where[:, 0],
            where[:, 1:],
            np.full(k * d, -1),
            "identity",
            self._mean_slopes,
            self._limited.ravel(),
        )

    def _mean_slopes(self) -> Array:
        k, d = self.params.means.shape
        scale = np.broadcast_to(self.params.scale, (k, *self.params.scale.shape[1:]))
        if scale.ndim == 2:
            scale = np.broadcast_to(scale, (k, d))[:, :, None] * np.eye(d)
        found = np.zeros((k, d, self.index.shape[1]))
        found[:, :, :d] = scale
        return found.reshape(k * d, -1)

    def _matrices(self) -> list[ShownParameter]:
        """Variances and covariances, whose estimates are normal on different scales."""
        scale, i, j = self.params.scale, self._i, self._j
        k, shared = len(scale), self.family.structure_name == "tied"
        values = (scale @ scale.swapaxes(1, 2))[:, i, j]
        limited = np.asarray(self._limited.any(axis=0))[None] if shared else self._limited
        places, found = np.column_stack([i, j]), []
        for chosen in (i == j, i != j):
            m = int(chosen.sum())
            found.append(
                ShownParameter(
                    "covariances",
                    values[:, chosen].ravel(),
                    np.repeat([-1] if shared else np.arange(k), m),
                    np.tile(places[chosen], (k, 1)),
                    np.full(k * m, -1),
                    "log" if chosen[0] else "identity",
                    partial(self._matrix_slopes, chosen),
                    (limited[:, i] | limited[:, j])[:, chosen].ravel(),
                )
            )
        return [one for one in found if len(one.values)]

    def _matrix_slopes(self, chosen: NDArray[np.bool_]) -> Array:
        """Changes of entries (i, j) of L B L' with B_pq and B_qp, for all pairs p >= q."""
        scale, p, q = self.params.scale, self._i, self._j
        k, d = len(scale), scale.shape[1]
        left, right, off = scale[:, p[chosen]], scale[:, q[chosen]], p != q
        found = np.zeros((k, int(chosen.sum()), self.index.shape[1]))
        found[:, :, d:] = left[:, :, p] * right[:, :, q]
        found[:, :, d:][:, :, off] += left[:, :, q[off]] * right[:, :, p[off]]
        return found.reshape(-1, self.index.shape[1])

    def _variances(self) -> list[ShownParameter]:
        variances = np.square(self.params.scale)
        where = grid(*variances.shape)
        return [
            ShownParameter(
                "covariances",
                variances.ravel(),
                where[:, 0],
                where[:, 1:],
                np.full(variances.size, -1),
                "log",
                self._variance_slopes,
                self._limited.ravel(),
            )
        ]

    def _variance_slopes(self) -> Array:
        k, d = self.params.means.shape
        found = np.zeros((k, d, 2 * d))
        found[:, np.arange(d), d + np.arange(d)] = np.square(self.params.scale)
        return found.reshape(k * d, -1)

    def _common_variances(self) -> list[ShownParameter]:
        variances = np.square(self.params.scale[:, 0])
        k = len(variances)
        return [
            ShownParameter(
                "covariances",
                variances,
                np.arange(k),
                np.zeros((k, 0), dtype=np.intp),
                np.full(k, -1),
                "log",
                self._common_slopes,
                np.asarray(self._limited.any(axis=1)),
            )
        ]

    def _common_slopes(self) -> Array:
        k, d = self.params.means.shape
        found = np.zeros((k, 2 * d))
        found[:, d:] = np.square(self.params.scale) / d  # d coordinates are one free coordinate
        return found
