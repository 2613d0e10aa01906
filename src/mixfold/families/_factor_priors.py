"""Weak priors of the factors of products.

A prior is worth some rows in every component. Those of Gaussians, as many times more as the factor
has columns, have the component's own mean and a covariance in proportion to that of all rows. Those
of other exponential families are distributed as the column is in all rows, so that a component that
has no row in which a column is observed has the column's overall distribution. The logarithm of the
density of a prior is minus the number of rows times the Kullback-Leibler divergence of a component
from the prior's distribution. Other families have none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.family import Family
from mixfold.core.rows import Array
from mixfold.core.statistics import Block, Blocks, outer_like
from mixfold.core.value import replace
from mixfold.families.gaussian import Gaussian, GaussianParams
from mixfold.families.transformed_gaussian import TransformedGaussian


def factor_prior(family: Family, blocks: Blocks, d: int) -> Any:
    """Components of the prior of a factor in a product of d columns; None if it has no prior."""
    gaussian = _gaussian(family)
    if not all(block.weight.any() for block in blocks):
        return None  # no cell is observed
    if gaussian is None:
        known = _exponential(family)
        return None if known is None else known.maximize(tuple(map(_overall, blocks)))[0]
    # the components divide all columns among them, not those of the factor alone
    found = gaussian.prior_params(blocks)
    k, width = found.means.shape
    return replace(found, scale=found.scale * k ** (1.0 / width - 1.0 / d))


def shrink_factor(family: Family, blocks: Blocks, prior: Any, rows: float) -> Blocks:
    """Blocks with so many rows of the prior in every component."""
    if prior is None:
        return blocks
    gaussian = _gaussian(family)
    if gaussian is not None:
        return gaussian.shrunk(blocks, prior, rows * _width(prior))
    known = _exponential(family)
    assert known is not None
    more = known.expected(prior, np.full(len(blocks[0].weight), rows))
    return tuple(one + other for one, other in zip(blocks, more, strict=True))


def factor_divergence(family: Family, prior: Any, params: Any) -> Array | float:
    """Kullback-Leibler divergence of each component from the prior's distribution.

    It is multiplied by the number of columns of Gaussians, whose prior is worth as many rows.
    """
    if prior is None:
        return 0.0
    gaussian = _gaussian(family)
    if gaussian is not None:
        return _width(prior) * gaussian.prior_divergence(prior, params)
    known = _exponential(family)
    assert known is not None
    own, eta = known.to_natural(prior), known.to_natural(params)
    rise = known.log_normalizer(eta) - known.log_normalizer(own)
    return np.asarray(((own - eta) * known.mean(prior)).sum(axis=1) + rise)


def _width(prior: GaussianParams) -> int:
    return int(prior.means.shape[1])


def _gaussian(family: Family) -> Gaussian | None:
    """The Gaussian distribution of a factor, on whatever scale its columns are."""
    found = family.for_complete_rows()
    if isinstance(found, TransformedGaussian):
        found = found.normal.for_complete_rows()
    return found if isinstance(found, Gaussian) else None


def _exponential(family: Family) -> ExponentialFamily[Any] | None:
    """The exponential family of a factor; None if it is none."""
    found = family.for_complete_rows()
    if isinstance(found, ExponentialFamily) and not found.statistics_depend_on_params:
        return found
    return None


def _overall(block: Block) -> Block:
    """The block of all rows, the same for every component."""
    k, normalized = len(block.weight), block.weight / block.weight.sum()
    centre, length = normalized @ block.mean, block.scatter.shape[1]
    spread = normalized @ (block.scatter + outer_like(block.mean - centre, length))
    return Block(np.ones(k), np.tile(centre, (k, 1)), np.tile(spread, (k, 1)))
