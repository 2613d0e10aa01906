"""A mixture of which some parameters are fixed or shared."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mixfold.core.family import Family
from mixfold.core.statistics import Statistics
from mixfold.core.value import value
from mixfold.families.same_params import SameParams
from mixfold.models.constraints import Constraints
from mixfold.models.labelled import without_label_column
from mixfold.models.mixture_model import SMALLEST_WEIGHT, MixtureModel, MixtureParams


def family_of_params(family: Family) -> Family:
    """The family of complete rows without labels, which has the same parameters."""
    while isinstance(family, SameParams):
        family = family.like
    return family


@value
class ConstrainedMixture(MixtureModel):
    """p(x) = sum_k w_k p(x | k), whose M-step is the highest likelihood under constraints.

    A model of another number of components, which initializers and learners make for parts of it,
    has none.
    """

    is_constrained: ClassVar[bool] = True

    constraints: Constraints

    @property
    def is_exchangeable(self) -> bool:
        return False

    @property
    def has_coordinates(self) -> bool:
        return False

    @property
    def unconstrained_model(self) -> MixtureModel:
        """The mixture without constraints."""
        return MixtureModel(self.family, self.k, self.d)

    @property
    def anchors(self) -> Constraints:
        """What components that are drawn are matched with."""
        return self.constraints

    def maximize(self, statistics: Statistics) -> tuple[MixtureParams, int]:
        if self.k != self.constraints.k:
            return self.unconstrained_model.maximize(statistics)
        weights = np.maximum(self.constraints.weights_of(statistics.weight), SMALLEST_WEIGHT)
        like = family_of_params(self.family)
        components, n_degenerate = self.constraints.maximize(self.family, like, statistics.blocks)
        return MixtureParams(weights / weights.sum(), components), n_degenerate

    def blend(self, a: MixtureParams, b: MixtureParams, t: float) -> MixtureParams:
        return self.maximize(self.expected(a).mix(self.expected(b), t))[0]

    def n_parameters(self) -> int:
        columns = without_label_column(self).d
        like = family_of_params(self.family)
        return self.constraints.n_free_weights() + self.constraints.n_free(like, columns)
