"""A mixture of Gaussians of which only the means are estimated."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mixfold.core.rows import Array
from mixfold.core.statistics import Statistics
from mixfold.core.value import value
from mixfold.families.gaussian import GaussianParams
from mixfold.models.mixture_model import MixtureModel, MixtureParams


@value
class MeansOnly(MixtureModel):
    """p(x) = sum_k w_k N(x; mu_k, F_k F_k'), with weights w and scales F given."""

    only_means: ClassVar[bool] = True

    weights: Array
    scale: Array

    def __post_init__(self) -> None:
        super().__post_init__()
        means = np.zeros((self.k, self.d))
        self.check_params(MixtureParams(self.weights, GaussianParams(means, self.scale)))

    def maximize(self, statistics: Statistics) -> tuple[MixtureParams, int]:
        """The means of highest expected likelihood."""
        (block,) = statistics.blocks
        return MixtureParams(self.weights, GaussianParams(block.mean, self.scale)), 0
