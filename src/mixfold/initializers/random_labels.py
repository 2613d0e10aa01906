"""Random assignment of rows to components."""

from __future__ import annotations

import numpy as np

from mixfold.core.initializer import Initializer
from mixfold.core.rows import Rows
from mixfold.core.value import value
from mixfold.models.assignment import from_labels
from mixfold.models.mixture_model import MixtureModel, MixtureParams


@value
class RandomLabels(Initializer[MixtureModel, MixtureParams]):
    """Labels drawn uniformly, one M-step: components start close together.

    Reference: McLachlan and Peel (2000), section 3.9.3.
    """

    def draw(self, model: MixtureModel, rows: Rows, rng: np.random.Generator) -> MixtureParams:
        return from_labels(model, rows, rng.integers(model.k, size=len(rows)))
