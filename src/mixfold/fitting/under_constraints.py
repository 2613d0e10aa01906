"""Initial parameters under constraints."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.core.components import take_components
from mixfold.core.initializer import Initializer
from mixfold.core.rows import Array, Rows
from mixfold.core.value import value
from mixfold.models.assignment import from_centers
from mixfold.models.constrained_mixture import ConstrainedMixture
from mixfold.models.constraints import Constraints
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.models.penalized_mixture import PenalizedMixture, of_rows


@value
class UnderConstraints(Initializer[MixtureModel, MixtureParams]):
    """Parameters of another initializer, in the order and with the values that constraints ask for.

    Components that are drawn are matched with fixed components, means and weights by the smallest
    sum of distances. If all means are fixed, the others are those of the rows nearest to each.
    """

    inner: Any

    @property
    def random(self) -> bool:  # type: ignore[override]
        """Whether two draws can differ."""
        return bool(self.inner.random)

    def draw(self, model: MixtureModel, rows: Rows, rng: np.random.Generator) -> MixtureParams:
        assert isinstance(model, ConstrainedMixture | PenalizedMixture)
        free, known = model.unconstrained_model, model.anchors
        if not (self.random and free.is_exchangeable):
            found = self.inner.draw(free, rows, rng)
        elif known.means is not None and not np.isnan(known.means).any():
            found = from_centers(free, rows, known.means)
        else:
            found = matched(model, known, self.inner.draw(free, rows, rng))
        return model.maximize(of_rows(model, model.expected(found), rows.total_weight()))[0]


def matched(model: MixtureModel, known: Constraints, params: MixtureParams) -> MixtureParams:
    """The components in the order in which they are nearest to what is fixed."""
    from scipy.optimize import linear_sum_assignment

    order = linear_sum_assignment(_distances(model, known, params))[1]
    return take_components(params, order, model.k)


def _distances(model: MixtureModel, known: Constraints, params: MixtureParams) -> Array:
    """How far component j is from what is known of component i, (K, K)."""
    found = np.zeros((model.k, model.k))
    if known.fixed.any():
        far = model.family.symmetric_kl(known.components, params.components)
        found[known.fixed] += np.nan_to_num(far[known.fixed], nan=1e6, posinf=1e6)
    if known.means is not None:
        means = model.family.attributes(params.components)["means"]
        spread = means.std(axis=0)
        away = (known.means[:, None] - means[None]) / np.where(spread > 0.0, spread, 1.0)
        found += np.nan_to_num(np.square(away), nan=0.0).sum(axis=2)
    if known.weights is not None:
        away = known.weights[:, None] - params.weights[None]
        found += np.nan_to_num(np.square(away), nan=0.0)
    return found
