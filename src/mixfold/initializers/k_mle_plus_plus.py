"""k-MLE++ initialisation."""

from __future__ import annotations

import numpy as np

from mixfold.core.initializer import Initializer
from mixfold.core.rows import Rows
from mixfold.core.value import value
from mixfold.models.assignment import from_centers, spread_centers
from mixfold.models.mixture_model import MixtureModel, MixtureParams


@value
class KMlePlusPlus(Initializer[MixtureModel, MixtureParams]):
    """k-means++ with the Bregman divergence of the family in place of the squared distance.

    Reference: Saint-Jean and Nielsen (2015); Nielsen (2012).
    """

    def draw(self, model: MixtureModel, rows: Rows, rng: np.random.Generator) -> MixtureParams:
        centers = spread_centers(model.family.divergence, model.k, rows, rng)
        return from_centers(model, rows, centers)
