"""k-means in the columns as they are."""

from __future__ import annotations

import numpy as np

from mixfold.core.initializer import Initializer
from mixfold.core.rows import Rows
from mixfold.core.value import value
from mixfold.models.assignment import from_groups, real_columns
from mixfold.models.clustering import centred_rows, k_means
from mixfold.models.mixture_model import MixtureModel, MixtureParams


@value
class RawKMeans(Initializer[MixtureModel, MixtureParams]):
    """k-means with columns as they are, so that those of large variance decide.

    Lloyd's iterations after k-means++ are followed by moves of the centres that are needed least.
    The family must allow any real numbers.

    Reference: Lloyd (1982), Least squares quantization in PCM.
    """

    def draw(self, model: MixtureModel, rows: Rows, rng: np.random.Generator) -> MixtureParams:
        real_columns(model, "raw-k-means")
        x, weight = centred_rows(rows)
        return from_groups(model, rows, k_means(x, weight, model.k, rng))
