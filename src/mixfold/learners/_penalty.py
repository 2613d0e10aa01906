"""A weak prior of the components, added to the statistics and to the objective of EM."""

from __future__ import annotations

from mixfold.core.backend import Model
from mixfold.core.capabilities import ShrinksToData, WeakPrior
from mixfold.core.params import Params
from mixfold.core.statistics import Statistics
from mixfold.core.value import replace
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.models.penalized_mixture import PenalizedMixture


def with_prior(
    model: Model, params: Params, statistics: Statistics, strength: float, lightest: float
) -> tuple[Statistics, float | None]:
    """Statistics with those of the prior added, and the logarithm of its density at `params`.

    The lightest row counts once, so that neither a common factor of all weights nor the repetition
    of rows in place of weights matters.

    It is None if there is no prior: for a family that has none, with fixed parameters, and for one
    component, whose estimates are the moments of the data; and 0 for a family whose share of the
    prior is 0. The sum over components of their statistics does not depend on responsibilities, so
    the prior is the same in every pass, and nothing is stored. It does not concern the weights of
    components. A model that has a prior of its own adds it in its M-step.
    """
    if isinstance(model, PenalizedMixture):
        assert isinstance(params, MixtureParams)
        return statistics, model.log_prior(params, statistics)
    family = None
    if isinstance(model, MixtureModel) and not model.is_constrained:
        family = model.family
    if not (strength > 0.0 and model.k > 1 and isinstance(family, WeakPrior)):
        return statistics, None
    share = family.prior_share if isinstance(family, ShrinksToData) else 1.0
    if not share > 0.0:
        return statistics, 0.0
    assert isinstance(params, MixtureParams)
    rows = family.prior_rows(model.k, model.d, statistics.count / lightest)
    weight = lightest * strength * share * rows
    prior = family.prior_params(statistics.blocks)
    divergence = float(family.prior_divergence(prior, params.components).sum())
    blocks = family.shrunk(statistics.blocks, prior, weight)
    return replace(statistics, blocks=blocks), -weight * divergence
