"""The base class of learners that are stochastic approximations of EM.

Learners differ in the assignment of rows (`assign`), the rows per update (`batch_size`, None for
whole passes), the averaging of statistics (`schedule`, `recursive`) and the averaging of parameters
(`average_from`).
"""

from __future__ import annotations

from collections.abc import Sequence as States
from sys import maxsize
from typing import Any, ClassVar

import numpy as np

from mixfold.core.backend import Assignment, Backend, Model, RowOptions
from mixfold.core.backend_capabilities import CompleteRowUpdates, RowUpdater, row_updater
from mixfold.core.checks import check_above, check_kind, check_whole
from mixfold.core.errors import InvalidInputError
from mixfold.core.learner import Info, Learner
from mixfold.core.missing_cells import runs_of_rows
from mixfold.core.params import Params
from mixfold.core.registry import make_fields
from mixfold.core.rows import Array, Rows
from mixfold.core.schedule import Schedule
from mixfold.core.statistics import Additive
from mixfold.core.value import replace
from mixfold.learners._batches import learn_in_batches
from mixfold.learners._gathering import Fold, added, closed, expecting, gather, nothing, total
from mixfold.learners._lookahead import look_ahead
from mixfold.learners._merging import (
    check_same_kind,
    check_same_pass,
    counted,
    counting,
    in_order,
    join_statistics,
    joined_counts,
    learned_more,
    mean_average,
)
from mixfold.learners._steps import (
    RowCounts,
    batch_step,
    row_steps,
    rows_of_window,
    rows_to_step,
    weights_or_number,
)
from mixfold.learners._stochastic_state import (
    Assign,
    StochasticState,
    averaged,
    maximized,
    rows_once,
    truncated,
    truncation_excess,
)

BRANCH = 2**32


class StochasticEM(Learner[StochasticState]):
    """s <- s + gamma_r (mean of sbar over a batch - s), theta <- maximize(s).

    With `recursive`, the step is taken in the parameters' own coordinates instead.
    """

    recursive: ClassVar[bool] = False
    serves_noise = True
    draws: int = 1
    batch_size: float | None
    schedule: Schedule
    warmup: int
    max_iter: int
    average_from: int | None
    truncation: float | None

    @property
    def assign(self) -> Assign:
        """How a row is assigned to components."""
        return "expected"

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

    @property
    def _size(self) -> int:
        return maxsize if self.batch_size is None else int(self.batch_size)

    def why_unsupported(self, model: Model) -> str | None:
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

    def init(
        self, backend: Backend, params: Params, seen: int = 0, seed: int = 0
    ) -> StochasticState:
        region = 0.0
        if self.truncation is not None:
            region = float(
                max(0.0, np.ceil(truncation_excess(backend.model, params, self.truncation)))
            )
        return StochasticState(
            params,
            backend.model.expected(params),
            nothing(backend),
            RowCounts(float(seen)),
            rows=0,
            updates=0,
            passes=0,
            n_degenerate=0,
            average=None,
            averaged=0,
            start=params,
            region=region,
            truncations=0,
            seed=seed,
        )

    def init_after_fit(
        self, backend: Backend, params: Params, rows: int, weight: float, seed: int = 0
    ) -> StochasticState:
        learned = RowCounts(0.0, rows, weight, after_fit=rows > 0)
        return replace(self.init(backend, params, seed=seed), learned=learned)

    def weight_learned(self, state: StochasticState, rows: int) -> float:
        return state.learned.weight * rows / state.rows if state.rows else 0.0

    def check_state(self, model: Model, state: StochasticState) -> None:
        check_kind("state", state, StochasticState)
        state.check(model)

    def rows_to_small_steps(self, k: int, d: int) -> int:
        """The number of rows after which steps are small enough that no component is forgotten."""
        assert self.batch_size is not None
        rows = rows_to_step(self.schedule, self._size, self._size / rows_of_window(k, d))
        return 0 if rows == np.inf else int(rows)

    def row_by_row(self) -> bool:
        """Whether there is an update after every row, and nothing else between rows."""
        return self.batch_size == 1 and self.average_from is None and self.truncation is None

    def step(
        self, backend: Backend, state: StochasticState, rows: Rows
    ) -> tuple[StochasticState, list[Info]]:
        if self.row_by_row():
            updater = row_updater(backend, state.statistics, state.params)
            if updater is not None:
                return self._one_by_one(updater, state, rows)
            complete = backend.capability(CompleteRowUpdates)
            if complete is not None:
                return self._in_runs(backend, complete, state, rows)
        return self._in_batches(backend, state, rows)

    def _in_batches(
        self, backend: Backend, state: StochasticState, rows: Rows
    ) -> tuple[StochasticState, list[Info]]:
        return learn_in_batches(
            backend, state, rows, self._rows_of_batch, self._gathering, self._update
        )

    def _in_runs(
        self, backend: Backend, updates: CompleteRowUpdates, state: StochasticState, rows: Rows
    ) -> tuple[StochasticState, list[Info]]:
        """Rows one by one, those without missing cells in compiled code."""
        infos: list[Info] = []
        for some, complete in runs_of_rows(rows):
            updater = None
            if complete:
                updater = updates.complete_row_updater(state.statistics, state.params)
            if updater is None:
                state, info = self._in_batches(backend, state, some)
            else:
                state, info = self._one_by_one(updater, state, some)
            infos += info
        return state, infos

    def _rows_of_batch(self, state: StochasticState) -> int:
        return -(-self._size // state.learned.multiple)

    def _gathering(self, backend: Backend, state: StochasticState, rows: Rows) -> StochasticState:
        gathered = gather(self._fold(backend, state), backend.tile, state.gathered, rows)
        return replace(state, gathered=gathered, learned=state.learned.with_rows(rows))

    def _fold(self, backend: Backend, state: StochasticState) -> Fold:
        """A function that adds rows to the sums of the current batch."""
        how = "mode" if self.assign == "lookahead" else self.assign
        options = Assignment(how, self.draws, state.seed, state.rows)
        return expecting(backend, state.params, options)

    @property
    def options(self) -> RowOptions:
        """The options of updates after every row."""
        return RowOptions(self.assign, recursive=self.recursive)

    def _one_by_one(
        self, updater: RowUpdater, state: StochasticState, rows: Rows
    ) -> tuple[StochasticState, list[Info]]:
        weights = weights_or_number(rows)
        steps = self.row_steps(state.learned, weights)
        gamma = np.append(steps, np.zeros(len(rows) - len(steps)))
        if self.assign == "draw":
            updater.draw_from(state.seed, state.rows)
        hold = self.warm_up_rows(state, len(rows))
        log_likelihood, n_degenerate, _ = updater.fold(rows, gamma, hold, self.options)
        info = []
        if len(steps):
            mean = log_likelihood / rows.total_weight()
            info = [Info(len(rows), mean, float(steps[-1]))]
        after = updater.state()
        return self.advance(
            state, after, len(rows), state.learned.after(weights), n_degenerate
        ), info

    def row_steps(self, learned: RowCounts, weights: Array | int) -> Array:
        """Step sizes of the next rows, given by their positive weights or their number."""
        return row_steps(self.schedule, learned, weights)

    def warm_up_rows(self, state: StochasticState, n: int) -> int:
        """The number of the next n rows that belong to the warm-up, without M-steps."""
        return 0 if state.learned.after_fit else max(0, min(n, self.warmup - state.rows))

    def advance(
        self,
        state: StochasticState,
        after: tuple[Additive, Params],
        n: int,
        learned: RowCounts,
        n_degenerate: int,
    ) -> StochasticState:
        """The state after n more rows, each an update unless its weight is zero."""
        return replace(
            state,
            statistics=after[0],
            params=after[1],
            learned=learned,
            rows=state.rows + n,
            updates=state.updates + learned.rows - state.learned.rows,
            n_degenerate=state.n_degenerate + n_degenerate,
        )

    def _update(
        self, backend: Backend, state: StochasticState
    ) -> tuple[StochasticState, list[Info]]:
        """One step of stochastic approximation with the current batch."""
        batch, n = self._batch(backend, state), state.gathered.n
        state = replace(state, gathered=nothing(backend), rows=state.rows + n)
        if not batch.count > 0:
            return state, []
        weight = float(batch.count)
        gamma = self._step_size(state, weight)
        info = Info(n, batch.log_likelihood / weight, gamma)
        batch = batch.normalized()
        if self.recursive:
            statistics, cut = backend.model.recursive(state.statistics, batch, gamma)
            state = replace(state, n_degenerate=state.n_degenerate + cut)
        else:
            statistics = state.statistics.mix(batch, gamma)
        learned = state.learned.with_weight(weight)
        state = replace(state, statistics=statistics, learned=learned, updates=state.updates + 1)
        if self._is_warming_up(state):
            return state, [info]
        params, n_degenerate = maximized(backend.model, state, statistics)
        state = replace(state, params=params, n_degenerate=state.n_degenerate + n_degenerate)
        state = truncated(backend.model, state, self.truncation)
        return averaged(backend.model, state, self.average_from), [info]

    def _is_warming_up(self, state: StochasticState) -> bool:
        return state.rows <= self.warmup and not state.learned.after_fit

    def _batch(self, backend: Backend, state: StochasticState) -> Additive:
        """Statistics of the current batch."""
        if self.assign == "lookahead":
            row = state.gathered.waiting
            gamma = self._step_size(state, row.total_weight())
            return look_ahead(backend, state.params, state.statistics, row, gamma)
        sums = total(self._fold(backend, state), state.gathered)
        found: Additive = backend.model.statistics(state.params, sums)
        return found

    def _step_size(self, state: StochasticState, weight: float) -> float:
        """The step size of the next update, for a batch of a weight."""
        if self.batch_size is None:
            return float(self.schedule([state.updates + 1])[0])
        return batch_step(self.schedule, state.learned, weight, self.batch_size)

    def end_pass(
        self, backend: Backend, state: StochasticState
    ) -> tuple[StochasticState, list[Info]]:
        infos: list[Info] = []
        if state.gathered.n:
            state, infos = self._update(backend, state)
        return replace(state, passes=state.passes + 1), infos

    def restart(self, backend: Backend, state: StochasticState) -> StochasticState:
        """Reset the step sizes to those after initialisation, and the mean of iterates."""
        k, d = backend.model.k, backend.model.d
        most = 0.0 if self.batch_size is None else float(self.rows_to_small_steps(k, d))
        behind = state.learned.prior_count + state.learned.rows
        learned = RowCounts(min(behind, most), state.gathered.n, 0.0)
        return replace(state, learned=learned, updates=0, average=None, averaged=0)

    # merging

    def is_reduction(self, state: StochasticState) -> bool:
        return self.batch_size is None

    def branch(self, model: Model, state: StochasticState, number: int, of: int) -> StochasticState:
        """The state of a worker, whose rows stand for those of all, once steps are small enough."""
        seed, learned = state.seed + (number + 1) * BRANCH, state.learned
        if self.batch_size is not None and of > 1:
            step = self._size / rows_of_window(model.k, model.d)
            limits = step / np.arange(2.0, of + 1.0)
            rows = [rows_to_step(self.schedule, self._size, limit) for limit in limits]
            learned = learned.in_parallel(np.array(rows))
        return replace(state, seed=seed, learned=learned)

    def flushed(self, backend: Backend, state: StochasticState) -> StochasticState:
        return self.flush(backend, state)[0]

    def flush(self, backend: Backend, state: StochasticState) -> tuple[StochasticState, list[Info]]:
        """Update with an incomplete batch, with a shorter step, as at the end of a pass."""
        if self.batch_size is None:
            gathered = closed(self._fold(backend, state), state.gathered)
            return replace(state, gathered=gathered), []
        return self._update(backend, state) if state.gathered.n else (state, [])

    def merge(
        self, backend: Backend, before: StochasticState, states: States[StochasticState]
    ) -> StochasticState:
        """Add the sums of a pass, or average s, weighted by the rows learned since `before`."""
        if self.batch_size is None:
            check_same_pass(before, states)
            before = self.flushed(backend, before)
            parts = in_order([self.flushed(backend, state).gathered for state in states])
            learned = joined_counts(before.learned, [state.learned for state in states])
            return replace(before, gathered=added(before.gathered, parts), learned=learned)
        check_same_kind(before, states)
        before = self.flushed(backend, before)
        own = [replace(self.flushed(backend, state), seed=before.seed) for state in states]
        moved = learned_more(self, backend, before, own)
        if not moved:
            return before
        alone = len(moved) == 1 and moved[0].learned.parallel is None
        return moved[0] if alone else self._mean(backend, before, moved)

    def _mean(
        self, backend: Backend, before: StochasticState, states: States[StochasticState]
    ) -> StochasticState:
        after = replace(
            before,
            learned=joined_counts(before.learned, [state.learned for state in states]),
            passes=max(state.passes for state in states),
            average=mean_average(backend.model, before, states),
            region=max(state.region for state in states),
            **counted(before, states, "rows", "updates", "n_degenerate", "averaged", "truncations"),
        )
        weighty = [state for state in states if state.learned.weight > before.learned.weight]
        if not weighty:
            return after
        statistics, params, n_degenerate = join_statistics(
            backend.model,
            (before.params, before.statistics),
            [state.statistics for state in weighty],
            counting(self.schedule, self._size, before.learned, [s.learned for s in weighty]),
            rows_once(after),
        )
        after = replace(after, statistics=statistics)
        if self._is_warming_up(after):
            return after
        return replace(after, params=params, n_degenerate=after.n_degenerate + n_degenerate)

    def finished(self, state: StochasticState) -> bool:
        return state.passes >= self.max_iter

    def estimates_last(self, state: StochasticState) -> bool:
        """Whether the estimate is the last parameters, not a mean of several."""
        return state.average is None

    def estimate(self, backend: Backend, state: StochasticState) -> Any:
        return state.params if state.average is None else state.average
