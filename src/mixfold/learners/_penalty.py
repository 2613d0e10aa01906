"""A weak prior of the components' scales, added to the statistics and to the objective of EM."""

from __future__ import annotations

from mixfold.core.backend import Model
from mixfold.core.capabilities import ShrinksToData
from mixfold.core.statistics import Block, Statistics
from mixfold.core.value import replace
from mixfold.models.mixture_model import MixtureModel, MixtureParams


def has_prior(model: Model, strength: float) -> bool:
    """Whether there is a prior: not for one component, whose estimates are the data's moments."""
    return (
        strength > 0.0
        and isinstance(model, MixtureModel)
        and model.k > 1
        and isinstance(model.family, ShrinksToData)
    )


def with_prior(
    model: MixtureModel, params: MixtureParams, statistics: Statistics, rows: float
) -> tuple[Statistics, float]:
    """Statistics with those of the prior added, and the logarithm of its density at `params`.

    The prior is worth `rows` rows per component, times what the family says. The statistics of
    all components together do not depend on the responsibilities, so the prior is the same in
    every pass, and nothing has to be stored. It does not change the weights of the components.
    """
    family = model.family
    assert isinstance(family, ShrinksToData)
    prior, n = family.prior_params(statistics.blocks), rows * family.prior_rows(model.d)
    worth = family.expected(prior, statistics.weight * 0.0 + n)
    blocks = tuple(_sum(a, b) for a, b in zip(statistics.blocks, worth, strict=True))
    log_density = -n * float(family.kullback_leibler(prior, params.components).sum())
    return replace(statistics, blocks=blocks), log_density


def _sum(rows: Block, prior: Block) -> Block:
    return rows + prior
