"""k-means in the directions in which rows are far from normal."""

from __future__ import annotations

import numpy as np

from mixfold.core.initializer import Initializer
from mixfold.core.rows import Rows
from mixfold.core.value import value
from mixfold.models.assignment import from_groups, real_columns, weights_of
from mixfold.models.clustering import k_means, sphered
from mixfold.models.directions import interesting_directions
from mixfold.models.mixture_model import MixtureModel, MixtureParams

MOST = 5


@value
class ProjectionPursuit(Initializer[MixtureModel, MixtureParams]):
    """k-means in a few directions of the sphered rows that have the least entropy.

    They are found among directions of extreme kurtosis and skewness. Clusters that differ in few
    of many directions are found, whatever their spread in the others. How many directions are
    taken at most is drawn, from one to min(K, 5). The family must allow any real numbers.

    Reference: Peña and Prieto (2001), Cluster identification using projections.
    """

    def draw(self, model: MixtureModel, rows: Rows, rng: np.random.Generator) -> MixtureParams:
        real_columns(model, "projection-pursuit")
        z, weight = sphered(rows), weights_of(rows)
        number = min(int(rng.integers(1, min(model.k, MOST) + 1)), z.shape[1])
        directions = interesting_directions(z, weight / weight.sum(), number, rng)
        return from_groups(model, rows, k_means(z @ directions, weight, model.k, rng))
