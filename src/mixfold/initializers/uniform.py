"""Random centres that do not depend on the data."""

from __future__ import annotations

import numpy as np

from mixfold.core.capabilities import CappedPrecision
from mixfold.core.checks import check_above
from mixfold.core.initializer import Initializer
from mixfold.core.rows import Rows
from mixfold.core.value import value
from mixfold.models.assignment import of_one_spread
from mixfold.models.mixture_model import MixtureModel, MixtureParams


@value
class Uniform(Initializer[MixtureModel, MixtureParams]):
    """Means drawn uniformly from a box of half-width `radius` around zero, equal weights.

    Precisions are the family's cap where it has one, else those of some rows.
    """

    radius: float = 0.1

    def __post_init__(self) -> None:
        check_above("radius", self.radius, 0.0)

    def draw(self, model: MixtureModel, rows: Rows, rng: np.random.Generator) -> MixtureParams:
        centers = rng.uniform(-self.radius, self.radius, size=(model.k, model.d))
        params = of_one_spread(model, rows, centers)
        if not isinstance(model.family, CappedPrecision):
            return params
        return MixtureParams(params.weights, model.family.at_cap(params.components))
