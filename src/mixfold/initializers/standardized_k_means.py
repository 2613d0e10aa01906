"""k-means in standardised columns."""

from __future__ import annotations

import numpy as np

from mixfold.core.initializer import Initializer
from mixfold.core.rows import Rows
from mixfold.core.value import value
from mixfold.models.assignment import from_groups, real_columns, weights_of
from mixfold.models.clustering import k_means, standardized
from mixfold.models.mixture_model import MixtureModel, MixtureParams


@value
class StandardizedKMeans(Initializer[MixtureModel, MixtureParams]):
    """k-means after every column was divided by its standard deviation, with moves of centres.

    Lloyd's iterations after k-means++ are followed by moves of the centres that are needed least,
    which matter where there are many clusters. The family must allow any real numbers.

    References: Lloyd (1982); Fritzke (2021), The breathing k-means algorithm.
    """

    def draw(self, model: MixtureModel, rows: Rows, rng: np.random.Generator) -> MixtureParams:
        real_columns(model, "standardized-k-means")
        return from_groups(model, rows, k_means(standardized(rows), weights_of(rows), model.k, rng))
