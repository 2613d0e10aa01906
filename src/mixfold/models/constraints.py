"""Constraints of the parameters of a mixture, and the M-steps under them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixfold.core.components import put_components
from mixfold.core.family import Family
from mixfold.core.rows import Array
from mixfold.core.statistics import Block, Blocks, outer_like
from mixfold.core.value import replace, value
from mixfold.families.gaussian import Gaussian, GaussianParams

MOST_STEPS = 500
TOLERANCE = 1e-12  # of means, in standard deviations

Groups = NDArray[np.int64]
"""The number of the group of each component; components of a group share parameters."""


@value
class Constraints:
    """What is fixed in K components, as arrays in which NaN is free, and what they share.

    `weights` are (K,), `means` (K, d), and `scale` that of Gaussians. `components` are parameters
    of K components, of which those in `fixed` count.
    """

    weights: Array | None
    means: Array | None
    scale: Array | None
    components: Any
    fixed: NDArray[np.bool_]
    equal_means: Groups | None
    equal_scales: Groups | None

    @property
    def k(self) -> int:
        """The number of components."""
        return len(self.fixed)

    @property
    def of_moments(self) -> bool:
        """Whether means or covariances are fixed or shared."""
        given = (self.means, self.scale, self.equal_means, self.equal_scales)
        return any(one is not None for one in given)

    def weights_of(self, weight: Array) -> Array:
        """Weights of highest expected likelihood; free ones share what the fixed ones leave."""
        if self.weights is None:
            return np.asarray(weight / weight.sum())
        free = np.isnan(self.weights)
        if not free.any():
            return self.weights
        found, own = self.weights.copy(), weight[free]
        own = own if own.any() else np.ones_like(own)
        found[free] = (1.0 - self.weights[~free].sum()) * own / own.sum()
        return found

    def maximize(self, family: Family, like: Family, blocks: Blocks) -> tuple[Any, int]:
        """Components of highest expected likelihood, and how many are degenerate.

        `like` is the family with these parameters of rows without labels and missing cells.
        """
        if not self.of_moments:
            found, n_degenerate = family.maximize(blocks)
        elif isinstance(like, Gaussian):
            found, n_degenerate = self._gaussians(like, blocks[0])
        else:
            block = blocks[0]
            means = self._means(block.mean, block.weight, np.ones_like(block.mean))
            found, n_degenerate = family.maximize((replace(block, mean=means),))
        if self.fixed.any():
            found = put_components(found, self.components, self.fixed)
        return found, n_degenerate

    def _gaussians(self, family: Gaussian, block: Block) -> tuple[GaussianParams, int]:
        """Means and covariances by turns, until the means, where shared, do not change any more.

        The means of highest likelihood depend on covariances only if they are shared.
        """
        means = self._means(block.mean, block.weight, np.ones_like(block.mean))
        found, n_degenerate = self._about(family, block, means)
        if self.equal_means is None:
            return found, n_degenerate
        for _ in range(MOST_STEPS):
            root = family.whiten(found)
            now = self._means(block.mean, block.weight, root)
            step = np.abs(now - means) / family.standard_deviations(found)
            means = now
            found, n_degenerate = self._about(family, block, means)
            if not (step > TOLERANCE).any():
                break
        return found, n_degenerate

    def _about(self, family: Gaussian, block: Block, means: Array) -> tuple[GaussianParams, int]:
        """Covariances of highest expected likelihood about given means."""
        scatter = block.scatter + outer_like(block.mean - means, block.scatter.shape[1])
        if self.equal_scales is not None:
            weight = block.weight.reshape(len(means), -1)
            scatter = _pooled(scatter, weight, self.equal_scales)
        found, n_degenerate = family.maximize((Block(block.weight, means, scatter),))
        if self.scale is not None:
            given = np.where(np.isnan(self.scale), found.scale, self.scale)
            found = GaussianParams(found.means, given)
        return found, n_degenerate

    def _means(self, mean: Array, weight: Array, root: Array) -> Array:
        """Means of highest expected likelihood, under inverse scales W (K, d, d) or (K, d)."""
        if self.equal_means is not None:
            weight = weight.reshape(len(mean), -1)
            found = mean.copy()
            for members in _groups(self.equal_means):
                found[members] = _common_mean(mean[members], weight[members], root[members])
            mean = found
        return mean if self.means is None else np.where(np.isnan(self.means), mean, self.means)

    def n_free_weights(self) -> int:
        """Free parameters among the weights."""
        free = self.k if self.weights is None else int(np.isnan(self.weights).sum())
        return max(free - 1, 0)

    def n_free(self, like: Family, d: int) -> int:
        """Free parameters of the components in d columns, of the family with these parameters."""
        free = like.n_parameters(self.k, d)
        if self.fixed.any():
            free -= int(self.fixed.sum()) * like.n_parameters(1, d)
        if self.means is not None:
            free -= int((~np.isnan(self.means)).sum())
        if self.equal_means is not None:
            free -= d * n_shared(self.equal_means)
        if isinstance(like, Gaussian):
            of_one = like.structure.n_parameters(1, d)
            if self.scale is not None:
                known = ~np.isnan(self.scale).reshape(len(self.scale), -1).any(axis=1)
                free -= int(known.sum()) * of_one
            if self.equal_scales is not None:
                free -= n_shared(self.equal_scales) * of_one
        return free


def _groups(labels: Groups) -> list[NDArray[np.intp]]:
    """The members of groups of more than one component."""
    found = (np.flatnonzero(labels == label) for label in np.unique(labels))
    return [members for members in found if len(members) > 1]


def n_shared(labels: Groups) -> int:
    """By how many the components exceed the groups."""
    return len(labels) - len(np.unique(labels))


def _pooled(scatter: Array, weight: Array, labels: Groups) -> Array:
    """The mean scatter of every group, in all of its members."""
    found = scatter.copy()
    for members in _groups(labels):
        mass = np.maximum(weight[members], np.finfo(np.float64).tiny)
        found[members] = (mass * scatter[members]).sum(axis=0) / mass.sum(axis=0)
    return found


def _common_mean(mean: Array, weight: Array, root: Array) -> Array:
    """The mean of highest expected likelihood of components with inverse scales W."""
    mass = np.maximum(weight, np.finfo(np.float64).tiny)
    if root.ndim == 2:
        precision = mass * np.square(root)
        return np.asarray((precision * mean).sum(axis=0) / precision.sum(axis=0))
    precisions = mass[:, :, None] * (root.swapaxes(1, 2) @ root)
    linear = (precisions @ mean[:, :, None]).sum(axis=0)
    return np.asarray(np.linalg.solve(precisions.sum(axis=0), linear)[:, 0])
