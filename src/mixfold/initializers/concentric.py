"""Components with a common centre and different widths."""

from __future__ import annotations

import numpy as np

from mixfold.core.initializer import Initializer
from mixfold.core.rows import Rows
from mixfold.core.value import value
from mixfold.models.assignment import from_groups, real_columns, weights_of
from mixfold.models.clustering import sphered
from mixfold.models.mixture_model import MixtureModel, MixtureParams


@value
class Concentric(Initializer[MixtureModel, MixtureParams]):
    """Rows are divided by their Mahalanobis distance from the mean, at random quantiles.

    The components have about the same mean, and differ in width. The family must allow any real
    numbers.

    Reference: McLachlan and Peel (2000), Finite mixture models, section 3.9, for components with
    equal means.
    """

    def draw(self, model: MixtureModel, rows: Rows, rng: np.random.Generator) -> MixtureParams:
        real_columns(model, "concentric")
        radius, weight = np.square(sphered(rows)).sum(axis=1), weights_of(rows)
        order = np.argsort(radius, kind="stable")
        below = np.empty(len(rows))
        below[order] = (np.cumsum(weight[order]) - 0.5 * weight[order]) / weight.sum()
        cuts = np.cumsum(rng.dirichlet(np.full(model.k, 4.0)))[:-1]
        return from_groups(model, rows, np.searchsorted(cuts, below))
