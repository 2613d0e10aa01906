"""Random rows of the data as centres."""

from __future__ import annotations

import numpy as np

from mixfold.core.initializer import Initializer
from mixfold.core.rows import Rows
from mixfold.core.value import value
from mixfold.models.assignment import from_centers
from mixfold.models.mixture_model import MixtureModel, MixtureParams


@value
class RandomRows(Initializer[MixtureModel, MixtureParams]):
    """K rows drawn uniformly, each the centre of the rows nearest to it."""

    def draw(self, model: MixtureModel, rows: Rows, rng: np.random.Generator) -> MixtureParams:
        chosen = rng.choice(len(rows), size=model.k, replace=len(rows) < model.k)
        return from_centers(model, rows, rows.x[chosen].astype(np.float64))
