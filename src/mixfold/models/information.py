"""The information that rows have about the parameters of a mixture, summed in one pass.

The score of a row is the mean of the complete-data scores over its responsibilities (Fisher's
identity). Their products sum to the empirical information, and Louis' formula gives the observed
information from the same rows. Coordinates are free: K - 1 logits of the weights, then those of
`families/scores.py`.

References
----------
Louis (1982), Finding the observed information matrix when using the EM algorithm, JRSS B 44.
McLachlan and Krishnan (2008), The EM algorithm and extensions, sections 4.2 and 4.3.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mixfold.core.errors import InvalidInputError
from mixfold.core.missing_cells import has_missing
from mixfold.core.rows import Array, Rows
from mixfold.families.observed_scores import observed_scores
from mixfold.families.scores import LocalScores, local_scores
from mixfold.models.mixture_model import MixtureModel, MixtureParams

MOST_TOGETHER = 2000  # free coordinates whose information is one matrix
TILE_ELEMENTS = 2**20  # scores that are in memory at once
LONGEST_TILE = 2**12
ROUNDING = 1e-12  # information per row that may come from rounding

Group = NDArray[np.intp]


class MixtureScores:
    """Scores of rows in the free coordinates of a mixture.

    Above `most_together` coordinates the information is computed for groups of them: the weights,
    each component, and what components share, as if the other groups were known.
    """

    def __init__(
        self, model: MixtureModel, params: MixtureParams, most_together: int = MOST_TOGETHER
    ) -> None:
        self.model, self.params = model, params
        complete = model.family.for_complete_rows()
        self.local = local_scores(complete, params.components, params.weights, model.d)
        self.reference = int(params.weights.argmax())  # the component whose logit is fixed
        k, self.q = map(int, self.local.index.shape)
        self.n_weights = k - 1
        self.n_free = self.n_weights + self.local.n_free
        self.together = self.n_free <= most_together
        self.groups = [np.arange(self.n_free)] if self.together else self._groups()
        largest = max(map(len, self.groups))
        if largest > most_together:
            raise InvalidInputError(
                f"a component has {largest} parameters: the information of at most {most_together} "
                "is computed; use fewer columns, or diagonal covariances"
            )
        self._expansion = self._expanded()

    @property
    def tile(self) -> int:
        """How many rows are summed at once."""
        return max(1, min(LONGEST_TILE, TILE_ELEMENTS // max(1, self.model.k * self.q)))

    def _groups(self) -> list[Group]:
        index = self.local.index
        owners = [np.unique(row[row >= 0]) for row in index]
        times = np.bincount(np.concatenate(owners), minlength=self.local.n_free)
        shared = np.flatnonzero(times > 1)
        own = [self.n_weights + one[times[one] == 1] for one in owners]
        found = [np.arange(self.n_weights), *own, self.n_weights + shared]
        return [group for group in found if len(group)]

    def _expanded(self) -> csr_array:
        """The matrix (K q, n_free) of local coordinates by free ones."""
        flat = self.local.index.ravel()
        rows = np.flatnonzero(flat >= 0)
        places = rows, self.n_weights + flat[rows]
        return csr_array((np.ones(len(rows)), places), shape=(flat.size, self.n_free))

    def scores_of(self, x: Array) -> LocalScores:
        """The scores in local coordinates that suit rows, of which cells may be missing."""
        return self._observed if has_missing(x) else self.local

    @cached_property
    def _observed(self) -> LocalScores:
        return observed_scores(self.local)

    def scores(self, local: Array, responsibilities: Array) -> Array:
        """Scores of rows in the free coordinates, (n, n_free)."""
        k, n, q = local.shape
        weighted = (responsibilities.T[:, :, None] * local).transpose(1, 0, 2).reshape(n, k * q)
        return self.in_free_coordinates(weighted, responsibilities - self.params.weights)

    def in_free_coordinates(self, local: Array, logits: Array) -> Array:
        """Scores (n, n_free) from those in local coordinates (n, K q) and all logits (n, K)."""
        found = np.asarray(local @ self._expansion)
        found[:, : self.n_weights] = np.delete(logits, self.reference, axis=1)
        return found

    def in_local_coordinates(self, change: Array) -> tuple[Array, Array]:
        """Changes of the logits (K,) and of local coordinates (K, q), from free ones (n_free,)."""
        logits = np.insert(change[: self.n_weights], self.reference, 0.0)
        return logits, (self._expansion @ change).reshape(self.model.k, self.q)

    def of_component(self, k: int) -> Array:
        """The matrix (n_free, 1 + q) from (1, local scores) to the scores of rows with label k."""
        found = np.zeros((self.n_free, 1 + self.q))
        logits = np.eye(self.model.k)[k] - self.params.weights
        found[: self.n_weights, 0] = np.delete(logits, self.reference)
        found[:, 1:] = self._expansion[k * self.q : (k + 1) * self.q].toarray().T
        return found

    def weights_jacobian(self) -> Array:
        """Derivatives of the weights in the free logits, (K, K - 1)."""
        w = self.params.weights
        return np.delete(np.diag(w) - np.outer(w, w), self.reference, axis=1)


class InformationSums:
    """Sums over rows from which both kinds of information are computed."""

    def __init__(self, scores: MixtureScores) -> None:
        self.scores = scores
        k, q = scores.model.k, scores.q
        self.outer = [np.zeros((len(group), len(group))) for group in scores.groups]
        self.within = np.zeros((k, 1 + q, 1 + q))
        self.curvature = np.zeros((k, q, q))
        self.total = np.zeros(scores.n_free)
        self.weight = 0.0
        self.n = 0

    def add(self, rows: Rows, responsibilities: Array) -> Array:
        """Add a tile of rows with these responsibilities (n, K); returns their scores."""
        weight, x = rows.weights(), np.asarray(rows.x, np.float64)
        scores = self.scores.scores_of(x)
        local, each = scores.scores(x), weight[:, None] * responsibilities
        self.curvature += scores.curvature(x, each)
        found = self.scores.scores(local, responsibilities)
        for g, group in enumerate(self.scores.groups):
            own = found[:, group]
            self.outer[g] += (own * weight[:, None]).T @ own
        for k, own in enumerate(local):
            wide = np.hstack([np.ones((len(own), 1)), own])
            self.within[k] += (wide * each[:, k, None]).T @ wide
        self.total += weight @ found
        self.weight += float(weight.sum())
        self.n += len(rows)
        return found

    def complete(self) -> Array:
        """The information (n_free,) of single coordinates, if the components of rows were known."""
        scores = self.scores
        each = np.diagonal(self.curvature, axis1=1, axis2=2)
        each = np.where(each > ROUNDING * self.weight, each, 0.0)  # where no cell was observed
        found = np.zeros(scores.n_free)
        index = scores.local.index
        np.add.at(found, scores.n_weights + index[index >= 0], each[index >= 0])
        w = np.delete(scores.params.weights, scores.reference)
        found[: scores.n_weights] = self.weight * w * (1.0 - w)
        return found

    def empirical(self) -> list[Array]:
        """Sums of s s', for every group of coordinates."""
        return self.outer

    def observed(self) -> list[Array]:
        """Minus the second derivatives of the log-likelihood at its maximum, by groups.

        Louis: the complete-data information, less the variance of the complete-data score given
        the rows.
        """
        scores = self.scores
        found = [outer.copy() for outer in self.outer]
        logits = np.delete(scores.weights_jacobian(), scores.reference, axis=0)
        for k in range(scores.model.k):
            spread = scores.of_component(k)
            middle = -self.within[k].copy()
            middle[1:, 1:] += self.curvature[k]
            for g, group in enumerate(scores.groups):
                found[g] += spread[group] @ middle @ spread[group].T
        m = scores.n_weights  # all in the first group
        found[0][:m, :m] += self.weight * logits
        return found
