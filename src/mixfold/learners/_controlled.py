"""EM with a control variate, which reduces the variance of mini-batch statistics.

Learners differ in the control variate of a row (its stored responsibilities, or its statistics
under reference parameters, the anchor) and in whether the statistics are the mean of the control
variates themselves or approach it in small steps.
"""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import ClassVar

import numpy as np

from mixfold.core.backend import Backend, Model, RowOptions
from mixfold.core.backend_capabilities import RowUpdater, row_updater
from mixfold.core.checks import (
    check_above,
    check_kind,
    check_whole,
)
from mixfold.core.errors import InvalidInputError, unknown_name
from mixfold.core.learner import Info, Learner
from mixfold.core.limits import PRECISIONS
from mixfold.core.params import Params
from mixfold.core.rows import Array, Rows
from mixfold.core.statistics import Additive
from mixfold.core.value import replace
from mixfold.learners._batches import check_batch_size, learn_in_batches, rows_per_batch
from mixfold.learners._controlled_state import FILL, UPDATE, ControlledState
from mixfold.learners._convergence import has_converged, with_gain
from mixfold.learners._gathering import Fold, gather, nothing
from mixfold.learners._gathering import total as total_of
from mixfold.learners._linearity import not_linear
from mixfold.learners._memory import InMemory, Memory, OnFile, on_file
from mixfold.learners._memory_files import open_files
from mixfold.learners._steps import positive_weights, weighted_step
from mixfold.learners._visit import Visit

ROWS_PER_DIRECTION = 50


class ControlledEM(Learner[ControlledState]):
    """s <- s + rho (S + mean over a batch of (sbar_i(theta) - s_i) - s), theta <- maximize(s).

    `incremental`: S is s, updated with every batch. `remembers`: every s_i is stored, otherwise it
    is computed again from the anchor. `alternates`: every other pass only computes S; otherwise S
    is computed in the first pass only or, with `follows`, in every pass.
    """

    incremental: ClassVar[bool] = False
    remembers: ClassVar[bool] = True
    alternates: ClassVar[bool] = False
    follows: ClassVar[bool] = False
    places = ("memory",)
    rereads = True
    counts_prior = False
    batch_size: float
    max_iter: int
    memory: str | Path | None = None
    precision: str = "float64"
    rho: float | None = None
    tol: float = 0.0

    def __post_init__(self) -> None:
        check_batch_size(self.batch_size)
        if self.rho is not None:
            check_above("rho", self.rho, 0.0, 1.0)
        if self.precision not in PRECISIONS:
            raise unknown_name("precision", self.precision, PRECISIONS)
        check_whole("max_iter", self.max_iter)
        if isinstance(self.memory, PathLike):  # stored as text, which checkpoints can hold
            object.__setattr__(self, "memory", fspath(self.memory))
        if self.memory is not None and not isinstance(self.memory, str):
            raise InvalidInputError(f"memory is {self.memory!r}: None or a path is needed")

    def resolve(self, n: int | None, d: int, streaming: bool) -> Learner:
        if streaming:
            raise InvalidInputError(
                f"{type(self).__name__} reads rows several times, which a stream does not "
                "allow: use learner='online-em', or fit on all rows"
            )
        size = rows_per_batch(self.batch_size, n)
        return replace(self, batch_size=size)

    # memory of rows

    def _memory(self, width: int) -> Memory | None:
        if not self.remembers:
            return None
        if self.memory is None:
            return InMemory([], width, self.precision, [] if self.follows else None)
        return on_file(fspath(self.memory), width, self.precision)

    def _attach(self, state: ControlledState) -> None:
        """Open the files of the state's memory, if it was resumed."""
        if isinstance(state.memory, OnFile) and self.memory is not None:
            open_files(fspath(self.memory), state.memory.fit)

    def release(self, state: ControlledState) -> None:
        if state.memory is not None:
            state.memory.release()

    def check_state(self, model: Model, state: ControlledState) -> None:
        check_kind("state", state, ControlledState)
        state.check(model)
        if state.memory is None:  # after a fit, or without memory
            return
        check_kind("memory", state.memory, InMemory if self.memory is None else OnFile)
        rows = state.length if state.phase == UPDATE else 0
        state.memory.check(model.n_expectations, self.precision, rows)

    def _old(self, visit: Visit, state: ControlledState, rows: Rows, first: int) -> Array:
        """The stored responsibilities of rows from number `first` of the pass on."""
        if state.memory is not None:
            found: Array = state.memory.read(first, len(rows))
            return found
        return visit.expectations(state.anchor, rows)[1]

    # learning

    def why_unsupported(self, model: Model) -> str | None:
        return not_linear(self, model)

    def init(
        self, backend: Backend, params: Params, seen: int = 0, seed: int = 0
    ) -> ControlledState:
        expected = backend.model.expected(params)
        return ControlledState(
            params,
            expected,
            expected,
            params,
            params,
            self._memory(backend.model.n_expectations),
            nothing(backend, 1),
            nothing(backend, 1),
            FILL,
            row=0,
            length=0,
            weight=0.0,
            passes=0,
            n_degenerate=0,
            log_likelihood=0.0,
            before=-np.inf,
            gains=[],
            converged=False,
        )

    def step(
        self, backend: Backend, state: ControlledState, rows: Rows
    ) -> tuple[ControlledState, list[Info]]:
        self._attach(state)
        begin, infos = state.row, list[Info]()
        if state.phase == UPDATE:
            state, infos = self._learn(backend, state, rows)
        state = replace(state, row=begin + len(rows))
        if state.phase == FILL or self.follows:
            visit, fold = self._filling(backend, state)
            filling = gather(fold, backend.tile, state.filling, rows)
            state = replace(state, filling=filling, memory=visit.written(state.memory))
        return state, infos

    def _filling(self, backend: Backend, state: ControlledState) -> tuple[Visit, Fold]:
        """A function that adds the statistics of rows under the anchor to the reference."""
        visit = Visit(backend, state.initialization, self.precision)
        return visit, lambda rows, sums, first: visit.add(rows, sums, first, 0.0)

    def _change(self, backend: Backend, state: ControlledState) -> tuple[Visit, Fold]:
        """A function that adds the new minus the old statistics of rows to the batch."""
        visit = Visit(backend, state.params, self.precision)
        begin = state.row - state.gathered.n

        def fold(rows: Rows, sums: Array, offset: int) -> Array:
            old = self._old(visit, state, rows, begin + offset)
            return visit.add(rows, sums, begin + offset, old)

        return visit, fold

    def _learn(
        self, backend: Backend, state: ControlledState, rows: Rows
    ) -> tuple[ControlledState, list[Info]]:
        updater = None
        if self.batch_size == 1:
            updater = row_updater(backend, state.statistics, state.params, state.reference)
        if updater is not None:
            return self._one_by_one(backend, updater, state, rows)
        size = int(self.batch_size)
        return learn_in_batches(backend, state, rows, lambda _: size, self._gathering, self._update)

    def _gathering(self, backend: Backend, state: ControlledState, rows: Rows) -> ControlledState:
        visit, fold = self._change(backend, state)
        gathered = gather(fold, backend.tile, state.gathered, rows)
        state = replace(state, gathered=gathered, row=state.row + len(rows))
        return self._remembering(state, visit)

    def _remembering(self, state: ControlledState, visit: Visit) -> ControlledState:
        return replace(state, memory=visit.written(state.memory)) if self.incremental else state

    def step_size(self, backend: Backend, state: ControlledState) -> float:
        """The step size rho, by default the number of batches to the power -2/3, or less.

        Differences of statistics of few rows could make a covariance indefinite.
        """
        if self.rho is not None:
            return self.rho
        window = ROWS_PER_DIRECTION * backend.model.k * (backend.model.d + 1)
        share = (self.batch_size / state.length) ** (2.0 / 3.0)
        return float(min(1.0, max(self.batch_size / window, self.batch_size / state.length), share))

    def _weighted_step(self, backend: Backend, state: ControlledState, weight: float) -> float:
        """The step size of a batch of a weight; full batches of mean weight have step size rho."""
        share = weight / (state.weight / state.length) / self.batch_size
        return float(weighted_step(self.step_size(backend, state), share))

    def _one_by_one(
        self, backend: Backend, updater: RowUpdater, state: ControlledState, rows: Rows
    ) -> tuple[ControlledState, list[Info]]:
        visit = Visit(backend, state.params, self.precision)
        old = self._old(visit, state, rows, state.row)
        rho, mean_weight = self.step_size(backend, state), state.weight / state.length
        options = RowOptions(
            control="incremental" if self.incremental else "anchored",
            narrow=self.precision == "float32",
            per_weight=1.0 / state.weight,
        )
        gamma = np.full(len(rows), weighted_step(rho, 1.0 / mean_weight))
        if rows.weight is not None:
            steps = weighted_step(rho, positive_weights(rows) / mean_weight)
            gamma = np.append(steps, np.zeros(len(rows) - len(steps)))
        so_far = state.log_likelihood
        total, n_degenerate, fresh = updater.fold(rows, gamma, 0, options, old, so_far)
        assert fresh is not None
        visit.fresh.append((state.row, fresh))
        statistics, params = updater.state()
        after = replace(
            self._remembering(state, visit),
            params=params,
            statistics=statistics,
            n_degenerate=state.n_degenerate + n_degenerate,
            log_likelihood=total,
        )
        weight = rows.total_weight()
        return after, [Info(len(rows), (total - so_far) / weight, rho)] if weight else []

    def _update(
        self, backend: Backend, state: ControlledState
    ) -> tuple[ControlledState, list[Info]]:
        """One update with the current batch."""
        n = state.gathered.n
        visit, fold = self._change(backend, state)
        sums = total_of(fold, state.gathered)
        state = replace(self._remembering(state, visit), gathered=nothing(backend, 1))
        change, weight = sums[:-1], float(sums[-1])
        if not weight > 0:
            return state, []
        log_likelihood, change[0] = float(change[0]), 0.0
        rho = self._weighted_step(backend, state, weight)
        statistics = self._moved(backend, state, change, weight, rho)
        params, n_degenerate = backend.model.maximize(statistics)
        after = replace(
            state,
            params=params,
            statistics=statistics,
            n_degenerate=state.n_degenerate + n_degenerate,
            log_likelihood=state.log_likelihood + log_likelihood,
        )
        return after, [Info(n, log_likelihood / weight, rho)]

    def _moved(
        self, backend: Backend, state: ControlledState, change: Array, weight: float, rho: float
    ) -> Additive:
        """Statistics after a batch of a weight; the sums are linear in them."""
        model, params = backend.model, state.params
        sums = model.sums(params, state.statistics)
        if self.incremental:
            sums = sums + change / state.weight
        else:
            target = model.sums(params, state.reference) + change / weight
            sums = (1.0 - rho) * sums + rho * target
        moved: Additive = model.statistics(params, sums)
        return moved

    def end_pass(
        self, backend: Backend, state: ControlledState
    ) -> tuple[ControlledState, list[Info]]:
        infos: list[Info] = []
        self._attach(state)
        if state.gathered.n:
            state, infos = self._update(backend, state)
        fills = state.phase == FILL
        if fills or self.follows:
            state, filled = self._filled(backend, state)
            if fills:
                state, infos = self._begun(backend, state), filled
        return self._next_phase(state), infos

    def _filled(
        self, backend: Backend, state: ControlledState
    ) -> tuple[ControlledState, list[Info]]:
        """The state after the reference has been computed."""
        visit, fold = self._filling(backend, state)
        sums = total_of(fold, state.filling)
        state = replace(state, filling=nothing(backend, 1), memory=visit.written(state.memory))
        weight = float(sums[-1])
        if not weight > 0:
            return state, []
        reference = backend.model.statistics(state.initialization, sums[:-1])
        info = Info(state.row, reference.log_likelihood / weight, 1.0)
        after = replace(
            state,
            reference=reference.normalized(),
            anchor=state.initialization,
            length=state.row,
            weight=weight,
        )
        return after, [info]

    def _begun(self, backend: Backend, state: ControlledState) -> ControlledState:
        """The state after a pass that only computed the reference, which is an EM step."""
        if not state.weight > 0:
            return state
        params, n_degenerate = backend.model.maximize(state.reference)
        return replace(
            state,
            params=params,
            statistics=state.reference,
            phase=UPDATE,
            n_degenerate=state.n_degenerate + n_degenerate,
            log_likelihood=state.reference.log_likelihood * state.weight,
        )

    def _next_phase(self, state: ControlledState) -> ControlledState:
        now = state.log_likelihood / state.weight if state.weight else -np.inf
        n = max(state.weight, state.row)
        gains = with_gain(state.gains, (now - state.before) * n if state.weight else np.inf)
        again = self.alternates and state.passes % 2 == 1
        return replace(
            state,
            phase=FILL if again else state.phase,
            initialization=state.params,
            memory=None if state.memory is None else state.memory.swapped(),
            row=0,
            passes=state.passes + 1,
            before=now,
            log_likelihood=0.0,
            gains=gains,
            converged=has_converged(gains, now * n, n, self.tol, "remaining"),
        )

    def weight_learned(self, state: ControlledState, rows: int) -> float:
        return state.weight

    def finished(self, state: ControlledState) -> bool:
        return state.converged or state.passes >= self.max_iter

    def converged(self, state: ControlledState) -> bool:
        return state.converged or not self.tol

    def compact(self, state: ControlledState) -> ControlledState:
        return replace(state, memory=None)
