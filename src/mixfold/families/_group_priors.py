"""Weak priors of products.

A prior is worth some rows in every component. Those of Gaussians have the component's own mean and
a covariance in proportion to that of all rows, and a joint distribution of several columns has as
many times more of them as it has columns. Those of other exponential families are distributed as
the column is in all rows, so that a component that has no row in which a column is observed has the
column's overall distribution. A row of counts with mean m says as much about the logarithm of the
mean as m rows of ones, so that above LARGE_COUNT a row counts in inverse proportion to its mean;
otherwise it would pull the components of large counts far from their rows.

The logarithm of the density of a prior is minus the number of rows times the Kullback-Leibler
divergence of a component from the prior's distribution. Other families have none.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.family import Family
from mixfold.core.rows import Array
from mixfold.core.statistics import Block, Blocks, outer_like
from mixfold.core.value import replace
from mixfold.families.column_groups import Group, ProductParams
from mixfold.families.gaussian import Gaussian
from mixfold.families.mean_params import MeanParams
from mixfold.families.poisson import Poisson
from mixfold.families.transformed_gaussian import TransformedGaussian

LARGE_COUNT = 10.0  # the mean of counts up to which the prior has a whole row of them


class Grouped(Protocol):
    """A product, whose factors of the same family are groups."""

    @property
    def n_columns(self) -> int: ...
    @property
    def groups(self) -> tuple[Group, ...]: ...
    def grouped(self, params: ProductParams) -> list[tuple[Group, Any]]: ...


class GroupPriors:
    """The weak prior of a product, of those groups that have one."""

    def prior_rows(self, k: int, d: int, n: float) -> float:
        """One row in each component."""
        return 1.0

    def prior_params(self: Grouped, blocks: Blocks) -> ProductParams:
        """Components of the distribution of the prior's rows; None for a group without prior."""
        found = [_prior(one.family, blocks[one.blocks], self.n_columns) for one in self.groups]
        return ProductParams.of_groups(self.groups, found)

    def shrunk(self: Grouped, blocks: Blocks, prior: ProductParams, rows: float) -> Blocks:
        """Blocks that include `rows` rows of the prior."""
        parts = (_shrunk(g.family, blocks[g.blocks], p, rows) for g, p in self.grouped(prior))
        return tuple(block for part in parts for block in part)

    def prior_divergence(self: Grouped, prior: ProductParams, params: ProductParams) -> Array:
        """The sum over groups, each times the rows that its prior has for one of the others."""
        pairs = zip(self.grouped(prior), self.grouped(params), strict=True)
        return np.asarray(sum(_divergence(g.family, p, own) for (g, p), (_, own) in pairs))


def _prior(family: Family, blocks: Blocks, d: int) -> Any:
    """Components of the prior of a group in a product of d columns; None if it has no prior."""
    gaussian, overall = _gaussian(family), tuple(map(_overall, blocks))
    if gaussian is None:
        known = _exponential(family)
        return None if known is None else known.maximize(overall)[0]
    # the components divide all columns among them, not those of the group alone
    found = gaussian.prior_params(overall)
    k, width = found.means.shape
    return replace(found, scale=found.scale * k ** (1.0 / width - 1.0 / d))


def _shrunk(family: Family, blocks: Blocks, prior: Any, rows: float) -> Blocks:
    if prior is None:
        return blocks
    gaussian, known = _gaussian(family), _exponential(family)
    if gaussian is not None:
        return gaussian.shrunk(blocks, prior, rows * _times(gaussian, prior))
    assert known is not None
    more = known.expected(prior, np.ones(len(blocks[0].weight)))
    if isinstance(known, Poisson):
        return (_with_counts(blocks[0], more[0], rows * _worth(prior)),)
    return tuple(
        block + replace(other, weight=np.full_like(block.weight, rows))
        for block, other in zip(blocks, more, strict=True)
    )


def _divergence(family: Family, prior: Any, params: Any) -> Array | float:
    if prior is None:
        return 0.0
    gaussian, known = _gaussian(family), _exponential(family)
    if gaussian is not None:
        return _times(gaussian, prior) * gaussian.prior_divergence(prior, params)
    assert known is not None
    if isinstance(known, Poisson):
        m, rate = prior.means, params.means
        return np.asarray((m * np.log(m / rate) - m + rate) @ _worth(prior))
    own, eta = known.to_natural(prior), known.to_natural(params)
    rise = known.log_normalizer(eta) - known.log_normalizer(own)
    return np.asarray(((own - eta) * known.mean(prior)).sum(axis=1) + rise)


def _worth(prior: MeanParams) -> Array:
    """How many rows the prior has in every column of counts for one of other families, (d,)."""
    return np.asarray(LARGE_COUNT / np.maximum(prior.means[0], LARGE_COUNT))


def _with_counts(block: Block, other: Block, rows: Array) -> Block:
    """A block of counts and rows of another, whose number differs among the columns."""
    by_cell = block.weight.ndim == 2
    weight = block.weight if by_cell else block.weight[:, None]
    mean = block.mean + rows / (weight + rows) * (other.mean - block.mean)
    return Block.of_means(block.weight + (rows if by_cell else rows.max()), mean)


def _times(gaussian: Gaussian, prior: Any) -> int:
    """How many rows the prior has for one of other families."""
    return 1 if gaussian.columns_are_independent else int(prior.means.shape[1])


def _gaussian(family: Family) -> Gaussian | None:
    """The Gaussian distribution of a group, on whatever scale its columns are."""
    found = family.for_complete_rows()
    if isinstance(found, TransformedGaussian):
        found = found.normal.for_complete_rows()
    return found if isinstance(found, Gaussian) else None


def _exponential(family: Family) -> ExponentialFamily[Any] | None:
    """The exponential family of a group; None if it is none."""
    found = family.for_complete_rows()
    if isinstance(found, ExponentialFamily) and not found.statistics_depend_on_params:
        return found
    return None


def _overall(block: Block) -> Block:
    """The block of all rows, the same for every component.

    Where no cell of a column is observed, it is the mean over components.
    """
    k, length = len(block.mean), block.scatter.shape[1]
    weight = block.weight if block.weight.ndim == 2 else block.weight[:, None]
    weight = np.where(weight.any(axis=0), weight, 1.0)
    normalized = weight / weight.sum(axis=0)
    centre = (normalized * block.mean).sum(axis=0)
    if not length:
        return Block.of_means(np.ones(k), np.tile(centre, (k, 1)))
    spread = normalized * (block.scatter + outer_like(block.mean - centre, length))
    return Block(np.ones(k), np.tile(centre, (k, 1)), np.tile(spread.sum(axis=0), (k, 1)))
