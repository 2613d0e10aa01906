"""The moments of a linear mixed model with several grouping factors, from all of its rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.models.profiled_deviance import Moments, eliminate

MOST_ENTRIES = 2**27  # numbers in the largest matrix


class FactorRows(NamedTuple):
    """The group of every row, how many groups there are, and the columns of random effects."""

    group: NDArray[np.intp]
    n_groups: int
    columns: Array

    @property
    def width(self) -> int:
        """Random effects of all groups together."""
        return self.n_groups * int(self.columns.shape[1])

    def matrix(self) -> csr_array:
        """Z, (n, width): a row has entries in the columns of its group."""
        n, q = self.columns.shape
        places = self.group[:, None] * q + np.arange(q)
        ends = np.arange(0, n * q + 1, q)
        return csr_array((self.columns.ravel(), places.ravel(), ends), shape=(n, self.width))


class CrossedMoments:
    """log det(V / sigma^2) and [A y]'(V / sigma^2)^-1 [A y], by Cholesky factors.

    With Z = [Z_1 Z_2 ...] and L = diag(L_1, ..., L_1, L_2, ...) over sigma, V / sigma^2 is
    I + Z L L'Z', whose determinant is that of M = I + L'Z'Z L. The factor with the most random
    effects comes first: its part of M is block diagonal, one small block for each group, so that
    only the other factors need a dense matrix.

    References
    ----------
    Bates, Maechler, Bolker and Walker (2015), Fitting linear mixed-effects models using lme4.
    """

    def __init__(self, factors: list[FactorRows], a: Array, y: Array) -> None:
        self._order = sorted(range(len(factors)), key=lambda j: -factors[j].width)
        first, *others = (factors[j] for j in self._order)
        self._sizes = [(factor.n_groups, factor.columns.shape[1]) for factor in others]
        self._hidden = sum(factor.width for factor in others)
        tail = self._hidden + a.shape[1] + 1
        _check_size(first.width, tail)
        rest = hstack([*(factor.matrix() for factor in others), csr_array(np.column_stack([a, y]))])
        rest = csr_array(rest)
        q = first.columns.shape[1]
        self._squares = np.zeros((first.n_groups, q, q))
        np.add.at(self._squares, first.group, first.columns[:, :, None] * first.columns[:, None, :])
        cross = (first.matrix().T @ rest).toarray()
        self._cross = np.asarray(cross, dtype=np.float64).reshape(first.n_groups, q, tail)
        self._gram = np.asarray((rest.T @ rest).toarray(), dtype=np.float64)

    def __call__(self, roots: list[Array]) -> Moments:
        """The moments for factors L_j / sigma, in the order of the grouping factors."""
        _, logs, _, inner = self._eliminated(roots)
        h = self._hidden
        tril = np.linalg.cholesky(inner[:h, :h])
        solved = np.linalg.solve(tril, inner[:h, h:])
        total = float(logs.sum()) + 2.0 * float(np.log(np.diag(tril)).sum())
        return Moments(total, inner[h:, h:] - solved.T @ solved)

    def effects(self, roots: list[Array], beta: Array) -> list[Array]:
        """Predicted random effects of all groups, (m_j, q_j), in the order of the factors."""
        tril, _, solved, inner = self._eliminated(roots)
        h, weights = self._hidden, np.append(-beta, 1.0)
        other = np.linalg.solve(inner[:h, :h], inner[:h, h:] @ weights)
        own = solved[:, :, h:] @ weights - solved[:, :, :h] @ other
        white = [np.linalg.solve(tril.transpose(0, 2, 1), own[:, :, None])[:, :, 0]]
        ends = np.cumsum([m * q for m, q in self._sizes])[:-1]
        white += (
            [
                part.reshape(size)
                for part, size in zip(np.split(other, ends), self._sizes, strict=True)
            ]
            if self._sizes
            else []
        )
        found: list[Array] = [np.zeros(0)] * len(roots)
        for j, u in zip(self._order, white, strict=True):
            found[j] = np.asarray(u @ roots[j].T)
        return found

    def _eliminated(self, roots: list[Array]) -> tuple[Array, Array, Array, Array]:
        """Factors of the first part of M, their log det, and what they leave of the rest."""
        first, *others = (roots[j] for j in self._order)
        tril, logs, solved = eliminate(self._squares, self._scaled(self._cross, others), first)
        flat = solved.reshape(-1, solved.shape[-1])
        inner = self._scaled(self._scaled(self._gram, others).T, others) - flat.T @ flat
        places = np.arange(self._hidden)
        inner[places, places] += 1.0
        return tril, logs, solved, inner

    def _scaled(self, matrix: Array, roots: list[Array]) -> Array:
        """The matrix times diag(L_2, ..., L_2, L_3, ..., 1, ..., 1)."""
        found, first = matrix.copy(), 0
        for (m, q), root in zip(self._sizes, roots, strict=True):
            part = matrix[..., first : first + m * q]
            found[..., first : first + m * q] = (part.reshape(-1, q) @ root).reshape(part.shape)
            first += m * q
        return found


def _check_size(width: int, tail: int) -> None:
    if max(width, tail) * tail > MOST_ENTRIES:
        raise InvalidInputError(
            f"the grouping factors have {width} and {tail} random effects, whose matrix is larger "
            f"than {MOST_ENTRIES:,} numbers: leave out factors, or use LinearMixedModel with one"
        )
