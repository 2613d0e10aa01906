"""Scores of Gaussians, some of whose cells are missing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mixfold.core.missing_cells import patterns
from mixfold.core.rows import Array
from mixfold.families._gaussian_scores import GaussianScores
from mixfold.families._shown_parameters import LocalScores, ShownParameter
from mixfold.families.observed_gaussian import ObservedGaussian


class ObservedGaussianScores(LocalScores):
    """In the coordinates of complete rows, in which a component is a standard normal distribution.

    Given the observed cells, z has the mean m and the covariance C. The score is the mean of that
    of a complete row (Fisher's identity), and the information that of a complete row less the
    covariance of its score (Louis), where Cov(z_i, z_j z_k) = m_j C_ik + m_k C_ij and Cov(z_i z_j,
    z_k z_l) = C_ik C_jl + C_il C_jk + m_i m_k C_jl + m_i m_l C_jk + m_j m_k C_il + m_j m_l C_ik.
    """

    def __init__(self, complete: GaussianScores) -> None:
        self._complete = complete
        self._family = ObservedGaussian(complete.family)
        super().__init__(complete.index, complete.n_free)

    def _parts(self, x: Array) -> Iterator[tuple[NDArray[np.intp], Array, Array]]:
        """The rows of every pattern, with m (K, n, d) and C (K, d, d)."""
        family, params = self._family, self._complete.params
        known = family.regressions(params)
        whiten = self._family.complete.whiten(params)
        if whiten.ndim == 2:
            whiten = np.broadcast_to(whiten, params.means.shape)[:, :, None] * np.eye(x.shape[1])
        for pattern in patterns(x):
            given = known.of(pattern)
            away, rest = family.expected_rows(params, x[pattern.rows], pattern, given)
            across = whiten.swapaxes(1, 2)
            yield pattern.rows, away @ across, whiten @ rest @ across

    def scores(self, x: Array) -> Array:
        i, j, same = self._complete.pairs
        found = np.empty((*self.index.shape[:1], len(x), self.index.shape[1]))
        for rows, m, c in self._parts(x):
            products = m[:, :, i] * m[:, :, j] + c[:, None, i, j]
            products[:, :, same] = 0.5 * (products[:, :, same] - 1.0)
            found[:, rows] = np.concatenate([m, products], axis=2)
        return found

    def curvature(self, x: Array, weight: Array) -> Array:
        d = x.shape[1]
        i, j, same = self._complete.pairs
        size = np.where(same, 0.5, 1.0)
        found = self._complete.curvature(x, weight)
        for rows, m, c in self._parts(x):
            own = weight[rows].T[:, :, None]
            total, first, second = (
                own.sum(axis=(1, 2)),
                (own * m).sum(axis=1),
                (own * m).swapaxes(1, 2) @ m,
            )
            total = total[:, None, None]
            cross = first[:, None, i] * c[:, :, j] + first[:, None, j] * c[:, :, i]
            products = np.zeros((len(c), len(i), len(i)))
            for a, b in ((i, j), (j, i)):
                for e, f in ((i, j), (j, i)):
                    # each of the terms of two covariances appears in two of the four orders
                    pair = second[:, a[:, None], e] + 0.5 * total * c[:, a[:, None], e]
                    products += pair * c[:, b[:, None], f]
            found[:, :d, :d] -= total * c
            found[:, :d, d:] -= size * cross
            found[:, d:, :d] -= (size * cross).swapaxes(1, 2)
            found[:, d:, d:] -= size[:, None] * size * products
        return found

    def shown(self) -> list[ShownParameter]:
        return self._complete.shown()
