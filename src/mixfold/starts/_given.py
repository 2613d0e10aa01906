"""Parameters that the user has."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Rows
from mixfold.core.start import Start
from mixfold.core.value import value
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.starts._assignment import from_centers


@value
class Given(Start):
    """Whole parameters, or means alone, which then are centres of the rows nearest to them."""

    params: Any
    random = False

    def draw(self, model: MixtureModel, rows: Rows, rng: np.random.Generator) -> MixtureParams:
        if isinstance(self.params, MixtureParams):
            self._check(model, self.params.components.means)
            return self.params
        means = np.asarray(self.params, dtype=np.float64)
        self._check(model, means)
        return from_centers(model, rows, means)

    def _check(self, model: MixtureModel, means: np.ndarray) -> None:
        if means.shape != (model.k, model.d):
            raise InvalidInputError(
                f"init has means of shape {means.shape}: {(model.k, model.d)} is needed "
                "(n_components, columns)"
            )
        if not np.isfinite(means).all():
            raise InvalidInputError("init has means that are not finite")
