"""Scores of rows with missing cells: derivatives of the log density of the cells that are there.

Coordinates and parameters are those of complete rows, so that sums over both kinds of rows add up.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixfold.core.rows import Array
from mixfold.families._differentiated_scores import DifferentiatedScores
from mixfold.families._gaussian_scores import GaussianScores
from mixfold.families._observed_gaussian_scores import ObservedGaussianScores
from mixfold.families._shown_parameters import LocalScores, ShownParameter, StatisticScores
from mixfold.families.incomplete_rows import with_missing
from mixfold.families.scores import ProductScores, TransformedScores


def observed_scores(local: LocalScores) -> LocalScores:
    """The scores of rows that lack some cells, from those of complete rows."""
    if isinstance(local, ProductScores):
        return local.of_parts([observed_scores(part) for part in local.parts])
    if isinstance(local, TransformedScores):
        return TransformedScores(local.family, local.params, observed_scores(local.normal))
    if isinstance(local, DifferentiatedScores):
        return DifferentiatedScores(with_missing(local.family), local.coordinates)
    assert isinstance(local, StatisticScores)
    with_missing(local.family)  # an error where rows cannot lack any
    if local.columns is not None:
        return ObservedColumnScores(local, local.columns)
    assert isinstance(local, GaussianScores)
    return ObservedGaussianScores(local)


class ObservedColumnScores(LocalScores):
    """Independent columns: coordinates of a missing column have a score of zero."""

    def __init__(self, complete: StatisticScores, columns: NDArray[np.intp]) -> None:
        self._complete, self._columns = complete, columns
        labels = np.zeros(1, dtype=np.intp)
        self._any = complete.family.sample(complete.params, labels, np.random.default_rng(0))
        super().__init__(complete.index, complete.n_free)

    def scores(self, x: Array) -> Array:
        there = ~np.isnan(x)
        return self._complete.scores(np.where(there, x, self._any)) * there[:, self._columns]

    def curvature(self, x: Array, weight: Array) -> Array:
        observed = (weight.T @ ~np.isnan(x))[:, self._columns]
        same = self._columns == self._columns[:, None]
        return np.asarray(same * observed[:, :, None] * self._complete.information())

    def shown(self) -> list[ShownParameter]:
        return self._complete.shown()
