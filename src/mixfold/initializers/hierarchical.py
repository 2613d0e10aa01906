"""Model-based hierarchical merging of many small groups."""

from __future__ import annotations

import numpy as np

from mixfold.core.initializer import Initializer
from mixfold.core.rows import Rows
from mixfold.core.value import value
from mixfold.models.assignment import from_groups, real_columns, weights_of
from mixfold.models.clustering import small_groups, sphered
from mixfold.models.merged_groups import merged
from mixfold.models.mixture_model import MixtureModel, MixtureParams

GROUPS, ROWS_PER_GROUP = 60, 8
DIRECTIONS = 8


@value
class Hierarchical(Initializer[MixtureModel, MixtureParams]):
    """Many small groups, merged one pair at a time where it costs the least likelihood.

    k-means divides the sphered rows into max(60, 3 K / 2) groups. Then the two are merged whose
    union loses the least of the classification likelihood of Gaussians with covariances of their
    own, until K are left. Of more than 8 directions those of largest variance are taken. The family
    must allow any real numbers.

    Reference: Fraley (1998), Algorithms for model-based Gaussian hierarchical clustering.
    """

    def draw(self, model: MixtureModel, rows: Rows, rng: np.random.Generator) -> MixtureParams:
        real_columns(model, "hierarchical")
        x, weight = sphered(rows, DIRECTIONS), weights_of(rows)
        number = min(max(GROUPS, 3 * model.k // 2), max(model.k, len(rows) // ROWS_PER_GROUP))
        labels = small_groups(x, weight, number, rng)
        return from_groups(model, rows, merged(x, weight, labels, model.k))
