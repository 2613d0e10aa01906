"""Expectations over random effects by Metropolis-Hastings draws."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mixfold.core.backend import Assignment
from mixfold.core.rows import Array, Rows
from mixfold.core.statistics import Totals
from mixfold.core.value import replace
from mixfold.kernels._metropolis import draw, shape_at_mode, shape_of
from mixfold.models.random_effects import Conditional, RandomEffects, no_closed_form

PILOT = 100


class Summary(NamedTuple):
    """Log density of every subject, and the posterior mean and covariance of its effects.

    `observed` is the observed information by Louis' identity, E[-Hessian] - Var(score) of the
    complete data; `outer` is the sum of squared scores, by Fisher's. Both add over subjects.
    `relative_variance` is that of the estimate of each subject's density, 0 where it is no
    estimate.
    """

    log_density: Array
    relative_variance: Array
    effects: Array
    covariance: Array
    observed: Array
    outer: Array


class SimulationKernel:
    """sbar(y) = mean over draws of the statistics of (y, z), z ~ p(z | y)."""

    def __init__(self, model: RandomEffects) -> None:
        self.model = model

    def prepare(self, params: Any) -> Any:
        """The parameters themselves."""
        return params

    def simulate(self, params: Any, rows: Rows, assignment: Assignment) -> tuple[Array, Array]:
        """An estimate of log p(y) of every subject, and its expected statistics."""
        target = self.model.conditional(params, rows.x)
        chains = draw(target, assignment, shape_at_mode(target))
        return chains.log_density, target.mean_statistics(chains.draws, chains.weight)

    def moments(self, params: Any, rows: Rows, expectations: Array) -> Array:
        """The sums of subjects with these statistics, without likelihood."""
        weight = rows.weights()
        return np.concatenate([[0.0, weight.sum()], weight @ expectations])

    def summarize(self, params: Any, rows: Rows, assignment: Assignment) -> Summary:
        """Posterior moments of the subjects and the information, computed from draws.

        Proposals have the shape of earlier draws, which fits better than that at the mode.
        """
        target = self.model.conditional(params, rows.x)
        before = replace(assignment, draws=PILOT, seed=assignment.seed + 1)
        pilot = draw(target, before, shape_at_mode(target))
        chains = draw(target, assignment, shape_of(pilot.draws))
        found = summary(
            self.model,
            params,
            target,
            rows.weights(),
            chains.draws,
            chains.weight,
            chains.log_density,
        )
        return found._replace(relative_variance=chains.relative_variance)

    def expect(self, params: Any, rows: Rows) -> Array:
        raise no_closed_form()

    def posterior(
        self, params: Any, x: Array, responsibilities: bool = True
    ) -> tuple[Array, Array | None]:
        raise no_closed_form()


def summary(
    model: RandomEffects,
    params: Any,
    target: Conditional,
    subject_weight: Array,
    points: Array,
    weight: Array,
    log_density: Array,
) -> Summary:
    """Posterior moments and information from points (m, n, q) with these posterior weights."""
    total, product = np.zeros(()), np.zeros(())
    for z, share in zip(points, weight, strict=True):
        scores = target.scores(z)
        total = total + share[:, None] * scores
        product = product + (scores * (share * subject_weight)[:, None]).T @ scores
    square = (total * subject_weight[:, None]).T @ total
    statistics = target.mean_statistics(points, weight)
    complete = Totals(subject_weight @ statistics, float(subject_weight.sum()), 0.0)
    center = (weight[..., None] * points).sum(axis=0)
    gap = points - center
    return Summary(
        log_density,
        np.zeros(len(log_density)),
        center,
        np.einsum("mn,mna,mnb->nab", weight, gap, gap),
        model.information(params, complete) - (product - square),
        square,
    )
