"""k-means in sphered coordinates."""

from __future__ import annotations

import numpy as np

from mixfold.core.initializer import Initializer
from mixfold.core.rows import Rows
from mixfold.core.value import value
from mixfold.models.assignment import from_groups, real_columns, weights_of
from mixfold.models.clustering import k_means, sphered
from mixfold.models.mixture_model import MixtureModel, MixtureParams


@value
class SpheredKMeans(Initializer[MixtureModel, MixtureParams]):
    """k-means in uncorrelated coordinates of variance one.

    Clusters that are long in a common direction are found, which k-means in the columns divides
    across. Of more than 50 directions those of largest variance are taken. The family must allow
    any real numbers.

    Reference: Gnanadesikan, Kettenring and Tsao (1995), Weighting and selection of variables for
    cluster analysis.
    """

    def draw(self, model: MixtureModel, rows: Rows, rng: np.random.Generator) -> MixtureParams:
        real_columns(model, "sphered-k-means")
        return from_groups(model, rows, k_means(sphered(rows), weights_of(rows), model.k, rng))
