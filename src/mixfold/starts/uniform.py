"""Centres that know nothing of the data."""

from __future__ import annotations

import numpy as np

from mixfold.core.checks import check_above
from mixfold.core.rows import Rows
from mixfold.core.start import Start
from mixfold.core.value import value
from mixfold.families.gaussian import GaussianParams
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.starts._assignment import of_one_spread


@value
class Uniform(Start):
    """Means drawn uniformly from a box of half-width `radius` around zero, equal weights.

    Precisions are the family's cap where it has one, else those of some rows.
    """

    radius: float = 0.1

    def __post_init__(self) -> None:
        check_above("radius", self.radius, 0.0)

    def draw(self, model: MixtureModel, rows: Rows, rng: np.random.Generator) -> MixtureParams:
        centers = rng.uniform(-self.radius, self.radius, size=(model.k, model.d))
        params = of_one_spread(model, rows, centers)
        least = getattr(model.family, "least_variance", 0.0)
        return _at_cap(params, np.sqrt(least)) if least else params


def _at_cap(params: MixtureParams, deviation: float) -> MixtureParams:
    """The same with that standard deviation in all directions."""
    components = params.components
    if not isinstance(components, GaussianParams):  # factors keep theirs
        return params
    factor = np.full_like(components.factor, deviation)
    if factor.ndim == 3:
        factor *= np.eye(factor.shape[1])
    return MixtureParams(params.weights, GaussianParams(components.means, factor))
