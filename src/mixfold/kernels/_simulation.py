"""Expectations over random effects by Metropolis-Hastings draws."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.core.problem import Assignment
from mixfold.core.rows import Array, Rows
from mixfold.kernels._metropolis import Chains, draw
from mixfold.models._random_effects import RandomEffects, no_closed_form


class SimulationKernel:
    """sbar(y) = mean over draws of the statistics of (y, z), z ~ p(z | y)."""

    def __init__(self, model: RandomEffects) -> None:
        self.model = model

    def prepare(self, params: Any) -> Any:
        """What the other functions want: the parameters themselves."""
        return params

    def chains(self, params: Any, rows: Rows, assignment: Assignment) -> Chains:
        """The draws of every unit."""
        return draw(self.model.conditional(params, rows.x), assignment)

    def simulate(self, params: Any, rows: Rows, assignment: Assignment) -> tuple[Array, Array]:
        """An estimate of log p(y) of every unit, and its expected statistics."""
        target = self.model.conditional(params, rows.x)
        chains = draw(target, assignment)
        total = np.zeros((len(rows), self.model.n_latent))
        for z in chains.draws:
            total += target.statistics(z)
        return chains.log_density, total / assignment.draws

    def moments(self, params: Any, rows: Rows, latent: Array) -> Array:
        """The sums of units with these statistics, without likelihood."""
        weight = rows.weights()
        return np.concatenate([[0.0, weight.sum()], weight @ latent])

    def louis(self, params: Any, rows: Rows, assignment: Assignment) -> tuple[Array, Array, Array]:
        """Sums over units: E[s], E[s s'] - E[s] E[s]' and E[s] E[s]' of the complete scores s."""
        target = self.model.conditional(params, rows.x)
        scores = np.stack([target.scores(z) for z in draw(target, assignment).draws])
        mean = scores.mean(axis=0)
        weight = rows.weights()
        scores -= mean
        spread = np.einsum("n,mna,mnb->ab", weight, scores, scores) / assignment.draws
        return weight @ mean, spread, (mean * weight[:, None]).T @ mean

    def expect(self, params: Any, rows: Rows) -> Array:
        raise no_closed_form()

    def posterior(
        self, params: Any, x: Array, responsibilities: bool = True
    ) -> tuple[Array, Array | None]:
        raise no_closed_form()

    def sequence(self, statistics: Any, params: Any) -> None:
        """There is no cheaper way to learn unit by unit."""
        return
