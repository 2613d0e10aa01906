"""k-means++ initialisation."""

from __future__ import annotations

import numpy as np

from mixfold.core.initializer import Initializer
from mixfold.core.rows import Rows
from mixfold.core.value import value
from mixfold.models.assignment import ScaledDistances, from_centers, spread_centers
from mixfold.models.mixture_model import MixtureModel, MixtureParams


@value
class KMeansPlusPlus(Initializer[MixtureModel, MixtureParams]):
    """K rows drawn with probability proportional to the squared distance from those before.

    Reference: Arthur and Vassilvitskii (2007).
    """

    def draw(self, model: MixtureModel, rows: Rows, rng: np.random.Generator) -> MixtureParams:
        return from_centers(model, rows, spread_centers(ScaledDistances(), model.k, rows, rng))
