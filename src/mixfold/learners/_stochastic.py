"""Stochastic approximation of EM: one mechanism, and the decisions that make its members.

How a row is assigned (`assign`), how many rows make an update (`batch_size`, None for whole
passes), how statistics are averaged (`schedule`, `recursive`), what is evaluated (`average_from`).
"""

from __future__ import annotations

from collections.abc import Sequence as States
from dataclasses import replace
from sys import maxsize
from typing import Any, ClassVar

import numpy as np

from mixfold.core.backend_capabilities import RowUpdater, row_updater
from mixfold.core.checks import (
    check_above,
    check_count,
    check_kind,
    check_least,
    check_seed,
    check_whole,
)
from mixfold.core.errors import InvalidInputError
from mixfold.core.learner import Info, Learner
from mixfold.core.problem import Assignment, Model, Problem, RowRule
from mixfold.core.registry import make_fields
from mixfold.core.rows import Rows
from mixfold.core.schedule import Schedule
from mixfold.core.value import value
from mixfold.learners._batches import learn_in_batches, step_of
from mixfold.learners._gathering import (
    Fold,
    Gathered,
    added,
    closed,
    expecting,
    gather,
    nothing,
    total,
)
from mixfold.learners._lookahead import look_ahead
from mixfold.learners._merging import (
    check_same_kind,
    check_same_pass,
    counted,
    in_order,
    learned_more,
    more,
    weighted,
)

ROWS_PER_DIRECTION = 5
BRANCH = 2**32


@value
class StochasticState:
    """Statistics s, parameters theta(s), and the batch under way.

    `average` is the Polyak mean of `averaged` iterates; `region` is the truncation level, and
    `start` the point learning goes back to when an iterate leaves it. `rows` and `seed` say which
    random numbers are next.
    """

    params: Any
    statistics: Any
    gathered: Gathered
    rows: int
    updates: int
    passes: int
    repairs: int
    average: Any
    averaged: int
    start: Any
    region: float
    truncations: int
    seed: int

    def check(self, model: Model) -> None:
        """Refuse what no rows of the model can have led to."""
        averages = [] if self.average is None else [self.average]
        for params in (self.params, self.start, *averages):
            model.check_params(params)
        model.check_statistics(self.statistics)
        self.gathered.check(model, self.params)
        for name in ("rows", "updates", "passes", "repairs", "averaged", "truncations"):
            check_count(name, getattr(self, name))
        check_least("averaged", self.averaged, len(averages))
        check_least("region", self.region, 0.0)
        check_seed("seed", self.seed)


class StochasticEM(Learner):
    """s <- s + gamma_r (mean of sbar over a batch - s), theta <- maximize(s).

    With `recursive`, the step is taken in the parameters' own coordinates instead.
    """

    assign: Any = "expected"
    recursive: ClassVar[bool] = False
    draws: int = 1
    batch_size: float | None
    schedule: Schedule
    warmup: int
    max_iter: int
    average_from: int | None
    truncation: float | None

    def __post_init__(self) -> None:
        make_fields(self, "schedule")
        check_whole("max_iter", self.max_iter)
        if self.warmup is not None:
            check_whole("warmup", self.warmup, 0)
        if self.average_from is not None:
            check_whole("average_from", self.average_from)
        if self.truncation is not None:
            check_above("truncation", self.truncation, 0.0)
        check_whole("draws", self.draws)
        if not callable(self.schedule):
            raise InvalidInputError(f"schedule is {self.schedule!r}: give e.g. Power(0.6)")

    def _bounds(self) -> tuple[float, float, float]:
        assert self.truncation is not None
        return self.truncation, self.truncation, self.truncation

    @property
    def _size(self) -> int:
        return maxsize if self.batch_size is None else int(self.batch_size)

    def refusal(self, model: Model) -> str | None:
        if self.assign == "lookahead" and not model.has_labels:
            return (
                "strategy='lookahead' tries every label, and this model has none: "
                "use 'argmax' or 'sample'"
            )
        if self.truncation is not None and not model.has_bounds:
            return (
                f"truncation is {self.truncation:g}, but parameters of "
                f"{getattr(model, 'family', model)!r} have no bounds: use truncation=None"
            )
        return None

    def init(self, problem: Problem, params: Any, seen: int = 0, seed: int = 0) -> StochasticState:
        region = 0.0
        if self.truncation is not None:
            region = float(max(0.0, np.ceil(problem.model.overreach(params, self._bounds()))))
        return StochasticState(
            params,
            problem.model.expected(params),
            nothing(problem),
            rows=0,
            updates=seen // self._size,
            passes=0,
            repairs=0,
            average=None,
            averaged=0,
            start=params,
            region=region,
            truncations=0,
            seed=seed,
        )

    def check_state(self, model: Model, state: StochasticState) -> None:
        check_kind("state", state, StochasticState)
        state.check(model)

    def rows_to_small_steps(self, k: int, d: int) -> int:
        """Rows after which a step no longer forgets a component faster than rows can replace it."""
        assert self.batch_size is not None
        size, window = int(self.batch_size), ROWS_PER_DIRECTION * k * (d + 1)
        updates = np.append(0.0, np.floor(2.0 ** np.arange(0.0, 40.0, 0.125)))
        small = self.schedule(updates + 1.0) <= size / window
        return int(updates[small.argmax()]) * size if small.any() else 0

    def row_by_row(self) -> bool:
        """Whether every row is an update and nothing else happens between them."""
        return self.batch_size == 1 and self.average_from is None and self.truncation is None

    def step(
        self, problem: Problem, state: StochasticState, rows: Rows
    ) -> tuple[StochasticState, list[Info]]:
        updater = None
        if self.row_by_row():
            updater = row_updater(problem, state.statistics, state.params)
        if updater is not None:
            return self._one_by_one(updater, state, rows)
        return learn_in_batches(problem, state, rows, self._size, self._gathering, self._update)

    def _gathering(self, problem: Problem, state: StochasticState, rows: Rows) -> StochasticState:
        gathered = gather(self._fold(problem, state), problem.tile, state.gathered, rows)
        return replace(state, gathered=gathered)

    def _fold(self, problem: Problem, state: StochasticState) -> Fold:
        """How rows of the batch under way are added to its sums."""
        rule = Assignment(self.assign, self.draws, state.seed, state.rows)
        return expecting(problem, state.params, rule)

    @property
    def rule(self) -> RowRule:
        """What one update per row does."""
        return RowRule(self.assign, recursive=self.recursive)

    def _one_by_one(
        self, updater: RowUpdater, state: StochasticState, rows: Rows
    ) -> tuple[StochasticState, list[Info]]:
        gamma, hold = self.plan(state.updates, state.rows, len(rows))
        updater.draw_from(state.seed, state.rows)
        log_likelihood, repairs, _ = updater.fold(rows, gamma, hold, self.rule)
        updates = len(rows) if rows.weight is None else int(np.count_nonzero(rows.weights()))
        info = []
        if updates:
            mean = log_likelihood / rows.total_weight()
            info = [Info(len(rows), mean, float(gamma[updates - 1]))]
        return self.advance(state, updater.state(), len(rows), updates, repairs), info

    def plan(self, updates: int, rows: int, n: int) -> tuple[np.ndarray, int]:
        """Step sizes of the next n updates, and for how many of them theta is held."""
        gamma = self.schedule(np.arange(updates + 1, updates + n + 1))
        return gamma, max(0, min(n, self.warmup - rows))

    def advance(
        self, state: StochasticState, after: tuple[Any, Any], n: int, updates: int, repairs: int
    ) -> StochasticState:
        """The state after n more rows and one-row updates that ended in `after`."""
        return replace(
            state,
            statistics=after[0],
            params=after[1],
            rows=state.rows + n,
            updates=state.updates + updates,
            repairs=state.repairs + repairs,
        )

    def _update(
        self, problem: Problem, state: StochasticState
    ) -> tuple[StochasticState, list[Info]]:
        """One step of stochastic approximation with the gathered batch."""
        batch, n = self._batch(problem, state), state.gathered.n
        state = replace(state, gathered=nothing(problem), rows=state.rows + n)
        if not batch.count > 0:
            return state, []
        gamma = self._step_size(state, batch.count)
        info = Info(n, batch.log_likelihood / batch.count, gamma)
        batch = batch.normalized()
        if self.recursive:
            statistics, cut = problem.model.recursive(state.statistics, batch, gamma)
            state = replace(state, repairs=state.repairs + cut)
        else:
            statistics = state.statistics.mix(batch, gamma)
        state = replace(state, statistics=statistics, updates=state.updates + 1)
        if state.rows <= self.warmup:
            return state, [info]
        params, repairs = problem.model.maximize(statistics)
        state = replace(state, params=params, repairs=state.repairs + repairs)
        return self._averaged(problem, self._truncated(problem, state)), [info]

    def _batch(self, problem: Problem, state: StochasticState) -> Any:
        """Statistics of the gathered batch."""
        if self.assign == "lookahead":
            row = state.gathered.waiting
            gamma = self._step_size(state, row.total_weight())
            return look_ahead(problem, state.params, state.statistics, row, gamma)
        sums = total(self._fold(problem, state), state.gathered)
        return problem.model.statistics(state.params, sums)

    def _step_size(self, state: StochasticState, count: float) -> float:
        """The step of the next update, for a batch whose rows weigh `count`."""
        gamma = float(self.schedule([state.updates + 1])[0])
        return gamma if self.batch_size is None else step_of(gamma, count, self.batch_size)

    def _truncated(self, problem: Problem, state: StochasticState) -> StochasticState:
        """Back to the start, into a larger region, if theta has left the present one."""
        if self.truncation is None:
            return state
        if problem.model.overreach(state.params, self._bounds()) <= state.region:
            return state
        return replace(
            state,
            params=state.start,
            statistics=problem.model.expected(state.start),
            region=state.region + 1,
            truncations=state.truncations + 1,
        )

    def _averaged(self, problem: Problem, state: StochasticState) -> StochasticState:
        """Polyak: a running mean of the iterates from number `average_from` on."""
        if self.average_from is None or state.updates < self.average_from:
            return state
        n = state.averaged + 1
        if n == 1:
            return replace(state, average=state.params, averaged=1)
        average = problem.model.blend(state.average, state.params, 1.0 / n)
        return replace(state, average=average, averaged=n)

    def end_pass(
        self, problem: Problem, state: StochasticState
    ) -> tuple[StochasticState, list[Info]]:
        infos: list[Info] = []
        if state.gathered.n:
            state, infos = self._update(problem, state)
        return replace(state, passes=state.passes + 1), infos

    def awaken(self, problem: Problem, state: StochasticState) -> StochasticState:
        """Steps as large as after a start, and a mean of iterates from here on."""
        k, d = problem.model.k, problem.model.d
        first = 0 if self.batch_size is None else self.rows_to_small_steps(k, d) // self._size
        return replace(state, updates=min(state.updates, first), average=None, averaged=0)

    # joining

    def gathers(self, state: StochasticState) -> bool:
        return self.batch_size is None

    def branch(self, state: StochasticState, number: int) -> StochasticState:
        return replace(state, seed=state.seed + (number + 1) * BRANCH)

    def close(self, problem: Problem, state: StochasticState) -> StochasticState:
        return self.closed(problem, state)[0]

    def closed(
        self, problem: Problem, state: StochasticState
    ) -> tuple[StochasticState, list[Info]]:
        """An unfinished batch takes the shorter step it takes at the end of a pass."""
        if self.batch_size is None:
            gathered = closed(self._fold(problem, state), state.gathered)
            return replace(state, gathered=gathered), []
        return self._update(problem, state) if state.gathered.n else (state, [])

    def merge(
        self, problem: Problem, before: StochasticState, states: States[StochasticState]
    ) -> StochasticState:
        """Sums of a whole pass are added; else s is the mean by rows learned since `before`."""
        if self.batch_size is None:
            check_same_pass(before, states)
            before = self.close(problem, before)
            parts = in_order([self.close(problem, state).gathered for state in states])
            return replace(before, gathered=added(before.gathered, parts))
        check_same_kind(before, states)
        own = [replace(self.close(problem, state), seed=before.seed) for state in states]
        moved = learned_more(self, problem, before, own)
        if len(moved) < 2:
            return moved[0] if moved else before
        return self._mean(problem, before, moved)

    def _mean(
        self, problem: Problem, before: StochasticState, states: States[StochasticState]
    ) -> StochasticState:
        statistics = weighted(
            lambda a, b, t: a.mix(b, t),
            [state.statistics for state in states],
            more("rows", before, states),
        )
        after = replace(
            before,
            statistics=statistics,
            passes=max(state.passes for state in states),
            average=self._mean_average(problem, before, states),
            region=max(state.region for state in states),
            **counted(before, states, "rows", "updates", "repairs", "averaged", "truncations"),
        )
        if after.rows <= self.warmup:
            return after
        params, repairs = problem.model.maximize(statistics)
        return replace(after, params=params, repairs=after.repairs + repairs)

    def _mean_average(
        self, problem: Problem, before: StochasticState, states: States[StochasticState]
    ) -> Any:
        """The mean of the states' means of iterates, by how many more are behind each."""
        new = [state for state in states if state.averaged > before.averaged]
        if not new:
            return before.average
        averages = [state.average for state in new]
        return weighted(problem.model.blend, averages, more("averaged", before, new))

    def finished(self, state: StochasticState) -> bool:
        return state.passes >= self.max_iter

    def estimate(self, problem: Problem, state: StochasticState) -> Any:
        return state.params if state.average is None else state.average
