"""A stand-in for `learners/monte_carlo_em.py`: remove it when that file is here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mixfold.core.learner import Info, Learner
from mixfold.core.problem import Assignment, Problem
from mixfold.core.rows import Array, Rows
from mixfold.core.value import value


@value
class StandInState:
    """Statistics, parameters and the pass under way."""

    params: Any
    statistics: Any
    sums: Array
    rows: int
    passes: int
    repairs: int


@value
class StandIn(Learner):
    """s <- s + gamma_t (mean of sbar over draws - s), gamma_t = 1 for `full` passes, then 1/t."""

    draws: int = 20
    full: int = 60
    passes: int = 120
    seed: int = 0

    def init(self, problem: Problem, params: Any, seen: int = 0) -> StandInState:
        sums = np.zeros(problem.model.n_sums)
        return StandInState(params, problem.model.expected(params), sums, 0, 0, 0)

    def step(
        self, problem: Problem, state: StandInState, rows: Rows
    ) -> tuple[StandInState, list[Info]]:
        rule = Assignment("draw", self.draws, self.seed, state.rows)
        sums = problem.fold(state.params, rows, state.sums, rule)
        return replace(state, sums=sums, rows=state.rows + len(rows)), []

    def end_pass(self, problem: Problem, state: StandInState) -> tuple[StandInState, list[Info]]:
        batch = problem.model.statistics(state.params, state.sums)
        gamma = 1.0 / max(1, state.passes + 1 - self.full)
        statistics = state.statistics.mix(batch.normalized(), gamma)
        params, repairs = problem.model.maximize(statistics)
        info = Info(int(batch.count), batch.log_likelihood / batch.count, gamma)
        after = StandInState(
            params,
            statistics,
            np.zeros(problem.model.n_sums),
            state.rows,
            state.passes + 1,
            state.repairs + repairs,
        )
        return after, [info]

    def finished(self, state: StandInState) -> bool:
        return state.passes >= self.passes
