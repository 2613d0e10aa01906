"""Families of independent columns whose statistics are expectations under the parameters."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np

from mixfold.core.column_means import MeansAreAttributes
from mixfold.core.family import groups
from mixfold.core.independent_columns import IndependentColumns
from mixfold.core.params import ParamsT
from mixfold.core.rows import Array
from mixfold.core.statistics import Block, Blocks
from mixfold.core.weighted_means import WeightedMeans

# An interval of logarithms is divided so many times into so many parts; it is then shorter than
# 1e-13. Arrays are small, so that seven points at once take hardly longer than one.
PARTS, DIVISIONS = 8, 17


class ExpectedStatistics(MeansAreAttributes, IndependentColumns, WeightedMeans[ParamsT]):
    """Blocks are weighted means of statistics t(x; params), one after the other for all columns.

    A shape or size has no sufficient statistic. Its statistics are the derivatives of the
    log-likelihood at the present value, and that value itself: they determine a lower bound of the
    log-likelihood, with the same value, slope and curvature there, which `maximize` maximises.
    So the likelihood never falls, and steps are as short of Newton's as they must be for that.
    """

    statistics_depend_on_params = True

    @abstractmethod
    def expected_statistics(self, params: ParamsT, x: Array) -> Array:
        """t(x; params), (K, n, p)."""

    @abstractmethod
    def initial_params(self, x: Array, normalized: Array) -> ParamsT:
        """Parameters of one component by moments of rows, whose weights sum to 1."""

    def sums(self, params: ParamsT, x: Array, responsibilities: Array) -> Array:
        weighted = responsibilities.T[:, :, None] * self.expected_statistics(params, x)
        return np.hstack([responsibilities.sum(axis=0)[:, None], weighted.sum(axis=1)])

    def blocks_of(self, x: Array, responsibilities: Array) -> Blocks:
        weight = responsibilities.sum(axis=0)
        every = responsibilities.sum(axis=1) / weight.sum()
        mean = np.tile(self._means_of(x, every), (len(weight), 1))
        for k, members, normalized in groups(responsibilities, weight):
            mean[k] = self._means_of(x[members], normalized)
        return (Block.of_means(weight, mean),)

    def _means_of(self, x: Array, normalized: Array) -> Array:
        """Means of the statistics of rows, at the parameters that they have by moments."""
        return self.sums(self.initial_params(x, normalized), x, normalized[:, None])[0, 1:]


def towards(slope: Callable[[Array], Array], start: Array, end: Array) -> Array:
    """Where a slope changes its sign between positive numbers; `end` where it does not.

    The slope is positive in the direction of `end`. The side of `start` is returned, up to which
    it has been positive. Logarithms are divided so many times, whatever the slopes are, so that no
    number depends on the others. Slopes are computed of several arrays like `start` at once.
    """
    near, last = np.log(start), slope(end) > 0.0
    step = np.log(end) - near
    inside = np.arange(1.0, PARTS).reshape(-1, *[1] * near.ndim)
    for _ in range(DIVISIONS):
        step = step / PARTS
        ascends = slope(np.exp(near + inside * step)) > 0.0
        near = near + np.logical_and.accumulate(ascends).sum(axis=0) * step
    return np.where(last, end, np.exp(near))
