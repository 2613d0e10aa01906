"""Expectations over random effects by Metropolis-Hastings draws."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from mixfold.core.problem import Assignment
from mixfold.core.rows import Array, Rows
from mixfold.core.statistics import Totals
from mixfold.kernels._metropolis import draw, shape_at_mode, shape_of
from mixfold.models._random_effects import RandomEffects, no_closed_form

PILOT = 100


class Summary(NamedTuple):
    """Of every unit its log density, and the mean and covariance of its effects given the data.

    `observed` is the observed information by Louis' identity, E[-Hessian] - Var(score) of the
    complete data; `outer` is the sum of squared scores, by Fisher's. Both add over units.
    """

    log_density: Array
    effects: Array
    covariance: Array
    observed: Array
    outer: Array


class SimulationKernel:
    """sbar(y) = mean over draws of the statistics of (y, z), z ~ p(z | y)."""

    def __init__(self, model: RandomEffects) -> None:
        self.model = model

    def prepare(self, params: Any) -> Any:
        """What the other functions want: the parameters themselves."""
        return params

    def simulate(self, params: Any, rows: Rows, assignment: Assignment) -> tuple[Array, Array]:
        """An estimate of log p(y) of every unit, and its expected statistics."""
        target = self.model.conditional(params, rows.x)
        chains = draw(target, assignment, shape_at_mode(target))
        total = np.zeros((len(rows), self.model.n_latent))
        for z in chains.draws:
            total += target.statistics(z)
        return chains.log_density, total / assignment.draws

    def moments(self, params: Any, rows: Rows, latent: Array) -> Array:
        """The sums of units with these statistics, without likelihood."""
        weight = rows.weights()
        return np.concatenate([[0.0, weight.sum()], weight @ latent])

    def summarize(self, params: Any, rows: Rows, assignment: Assignment) -> Summary:
        """What draws tell of the units, and of the curvature of the likelihood.

        Proposals have the shape of draws made before, which fits better than that at the mode.
        """
        target = self.model.conditional(params, rows.x)
        before = replace(assignment, draws=PILOT, seed=assignment.seed + 1)
        pilot = draw(target, before, shape_at_mode(target))
        chains = draw(target, assignment, shape_of(pilot.draws))
        m, weight = assignment.draws, rows.weights()
        total, product = np.zeros(()), np.zeros(())
        statistics = np.zeros((len(rows), self.model.n_latent))
        for z in chains.draws:
            scores = target.scores(z)
            total = total + scores
            product = product + (scores * weight[:, None]).T @ scores
            statistics += target.statistics(z)
        mean = total / m
        square = (mean * weight[:, None]).T @ mean
        complete = Totals(weight @ statistics / m, float(weight.sum()), 0.0)
        center = chains.draws.mean(axis=0)
        gap = chains.draws - center
        return Summary(
            chains.log_density,
            center,
            np.einsum("mna,mnb->nab", gap, gap) / m,
            self.model.information(params, complete) - (product / m - square),
            square,
        )

    def expect(self, params: Any, rows: Rows) -> Array:
        raise no_closed_form()

    def posterior(
        self, params: Any, x: Array, responsibilities: bool = True
    ) -> tuple[Array, Array | None]:
        raise no_closed_form()
