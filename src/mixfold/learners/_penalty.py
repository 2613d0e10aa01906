"""A weak prior of the components' scales, added to the statistics and to the objective of EM."""

from __future__ import annotations

from mixfold.core.backend import Model
from mixfold.core.capabilities import ShrinksToData
from mixfold.core.params import Params
from mixfold.core.statistics import Statistics
from mixfold.core.value import replace
from mixfold.models.mixture_model import MixtureModel, MixtureParams

# Rows per component where there are as many free parameters of the scales as rows. It was chosen by
# the likelihood of held-out rows of small tables. With fewer parameters p, rows fall as (p / n)^2:
# in proportion to p / n they blur components that are a thousand times narrower than the data.
ROWS = 2.0


def with_prior(
    model: Model, params: Params, statistics: Statistics, strength: float, n: float
) -> tuple[Statistics, float | None]:
    """Statistics of n rows with the prior's added, and the logarithm of its density at `params`.

    It is None if there is no prior: for a family that has none, and for one component, whose
    estimates are the moments of the data. The sum over components of their statistics does not
    depend on responsibilities, so the prior is the same in every pass, and nothing is stored. It
    does not concern the weights and means of components.
    """
    family = model.family if isinstance(model, MixtureModel) else None
    if not (strength > 0.0 and model.k > 1 and isinstance(family, ShrinksToData)):
        return statistics, None
    assert isinstance(params, MixtureParams)
    ratio = family.n_scale_parameters(model.k, model.d) / n
    rows = strength * ROWS * ratio * min(1.0, ratio)
    weight = rows * statistics.count / n  # in units of the weight of a row
    prior = family.prior_params(statistics.blocks)
    divergence = float(family.scale_divergence(prior, params.components).sum())
    blocks = family.shrunk(statistics.blocks, prior, weight)
    return replace(statistics, blocks=blocks), -weight * divergence
