"""Random centres close to the mean of the data."""

from __future__ import annotations

import numpy as np

from mixfold.core.checks import check_above
from mixfold.core.initializer import Initializer
from mixfold.core.rows import Rows
from mixfold.core.source import block_length
from mixfold.core.value import value
from mixfold.models.assignment import of_one_spread, weights_of, with_spread
from mixfold.models.mixture_model import MixtureModel, MixtureParams


@value
class AroundMean(Initializer[MixtureModel, MixtureParams]):
    """Means drawn uniformly within `radius` deviations of the rows' mean, equal weights."""

    radius: float = 0.1

    def __post_init__(self) -> None:
        check_above("radius", self.radius, 0.0)

    def draw(self, model: MixtureModel, rows: Rows, rng: np.random.Generator) -> MixtureParams:
        some = rows.cut(0, block_length(model.d))
        x, weight = some.x.astype(np.float64, copy=False), weights_of(some)
        box = self.radius * with_spread(model).deviations_of(x, weight)
        centers = weight @ x / weight.sum() + box * rng.uniform(-1.0, 1.0, (model.k, model.d))
        return of_one_spread(model, rows, centers)
