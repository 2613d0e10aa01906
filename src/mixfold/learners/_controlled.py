"""EM with a control variate: what a row last said is taken off, and given back on average.

The decisions: what is taken off (the row's entry in a memory of all rows, or its share under an
anchor) and whether the statistics are the memory's mean itself or follow it in small steps.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from mixfold.core.checks import check_above, check_whole
from mixfold.core.errors import InvalidInputError, unknown_name
from mixfold.core.learner import Info, Learner
from mixfold.core.problem import Problem, RowRule, Sequence
from mixfold.core.rows import Array, Rows
from mixfold.core.value import value
from mixfold.learners._gathering import Gathered, gather, nothing
from mixfold.learners._gathering import total as total_of
from mixfold.learners._memory import InMemory, OnFile

FILL, UPDATE = "fill", "update"
PRECISIONS = ("float32", "float64")


@value
class ControlledState:
    """Statistics s, the reference they are steered by, and the memory or anchor behind it.

    A "fill" pass makes the reference under fixed parameters, an "update" pass uses it. `row` counts
    the rows of the pass, `length` and `weight` are those of the whole data.
    """

    params: Any
    statistics: Any
    reference: Any
    anchor: Any
    memory: Any
    gathered: Gathered
    phase: str
    row: int
    length: int
    weight: float
    passes: int
    repairs: int
    log_likelihood: float
    before: float
    converged: bool

    @property
    def on_file(self) -> bool:
        """Whether the end of every pass must be on disk before the next begins."""
        return self.memory is not None and self.memory.on_file


class Exchange:
    """Adds a batch's change of latent vectors to its sums, and keeps the new ones."""

    def __init__(self, learner: ControlledEM, problem: Problem, state: ControlledState) -> None:
        self.learner, self.problem, self.state = learner, problem, state
        self.begin = state.row - state.gathered.n
        self.fresh: list[tuple[int, Array]] = []

    def __call__(self, rows: Rows, sums: Array, offset: int) -> Array:
        """Sums of the model, then the weight of the rows."""
        problem, params = self.problem, self.state.params
        log_density, latent = problem.posterior(params, rows)
        assert latent is not None
        latent = self.learner.rounded(latent)
        first = self.begin + offset
        old = self.learner.old(problem, self.state, rows, first)
        moments = problem.moments(params, rows, latent - old, sums[:-1])
        weights, weight = rows.weights(), sums[-1]
        for i in range(0, len(rows), problem.tile):
            tile = slice(i, i + problem.tile)
            moments[0] += weights[tile] @ log_density[tile]
            weight += weights[tile].sum()
        self.fresh.append((first, latent))
        return np.append(moments, weight)

    def memory(self) -> Any:
        """The memory with the new latent vectors."""
        memory = self.state.memory
        if memory is not None:
            for first, latent in self.fresh:
                memory = memory.written(first, latent)
        return memory


class ControlledEM(Learner):
    """s <- s + rho (S + mean over a batch of (sbar_i(theta) - s_i) - s), theta <- maximize(s)."""

    control: ClassVar[Literal["incremental", "fast", "anchored"]]
    rereads = True
    batch_size: float
    memory: Any = None
    precision: str = "float64"
    rho: float | None = None
    tol: float = 0.0

    def __post_init__(self) -> None:
        check_above("batch_size", self.batch_size, 0.0)
        if self.batch_size > 1 and self.batch_size != int(self.batch_size):
            raise InvalidInputError(
                f"batch_size is {self.batch_size!r}: a number of rows, or a fraction below 1, "
                "is needed"
            )
        if self.rho is not None:
            check_above("rho", self.rho, 0.0, 1.0)
        if self.precision not in PRECISIONS:
            raise unknown_name("precision", self.precision, PRECISIONS)
        check_whole("max_passes", self.most_passes)

    @property
    def most_passes(self) -> int:
        """Passes at most."""
        raise AssertionError("every rule says how many passes it makes")

    def resolve(self, n: int | None, d: int, streaming: bool) -> Learner:
        if streaming:
            raise InvalidInputError(
                f"{type(self).__name__} goes back to rows it has seen, which a stream does not "
                "allow: use learner='online-em', or fit on all rows"
            )
        if self.batch_size >= 1:
            return replace(self, batch_size=int(self.batch_size))  # type: ignore[type-var]
        if n is None:
            raise InvalidInputError(
                f"batch_size={self.batch_size!r} is a fraction of a length this source does not "
                "know: give a number of rows"
            )
        size = max(1, round(self.batch_size * n))
        return replace(self, batch_size=size)  # type: ignore[type-var]

    # what is remembered of a row

    def _memory(self, width: int) -> InMemory | OnFile | None:
        if self.control == "anchored":
            return None
        if self.memory is None:
            return InMemory([], width, self.precision)
        return OnFile(str(Path(self.memory)), width, self.precision)

    def rounded(self, latent: Array) -> Array:
        """Latent vectors as the memory keeps them: what is added is what is later taken off."""
        return latent.astype(self.precision).astype(np.float64)

    def old(self, problem: Problem, state: ControlledState, rows: Rows, first: int) -> Array:
        """What rows from number `first` of the pass on were last taken for."""
        if state.phase == FILL:
            return np.zeros((1, problem.model.n_latent))
        if state.memory is not None:
            found: Array = state.memory.read(first, len(rows))
            return found
        latent = problem.posterior(state.anchor, rows)[1]
        assert latent is not None
        return self.rounded(latent)

    # learning

    def init(self, problem: Problem, params: Any, seen: int = 0, seed: int = 0) -> ControlledState:
        expected = problem.model.expected(params)
        return ControlledState(
            params,
            expected,
            expected,
            params,
            self._memory(problem.model.n_latent),
            nothing(problem, 1),
            FILL,
            row=0,
            length=0,
            weight=0.0,
            passes=0,
            repairs=0,
            log_likelihood=0.0,
            before=-np.inf,
            converged=False,
        )

    def step(
        self, problem: Problem, state: ControlledState, rows: Rows
    ) -> tuple[ControlledState, list[Info]]:
        sequence = None
        if state.phase == UPDATE and self.batch_size == 1:
            sequence = problem.sequence(state.statistics, state.params, state.reference)
        if sequence is not None:
            return self._one_by_one(problem, sequence, state, rows)
        infos: list[Info] = []
        while len(rows):
            room = len(rows) if state.phase == FILL else int(self.batch_size) - state.gathered.n
            some = rows.cut(0, room)
            exchange = Exchange(self, problem, state)
            gathered = gather(exchange, problem.tile, state.gathered, some)
            rows = rows.cut(room, len(rows))
            state = replace(
                state, gathered=gathered, memory=exchange.memory(), row=state.row + len(some)
            )
            if state.phase == UPDATE and gathered.n == self.batch_size:
                state, info = self._update(problem, state)
                infos += info
        return state, infos

    def step_size(self, state: ControlledState) -> float:
        """rho, by default the number of batches to the power -2/3."""
        if self.rho is not None:
            return self.rho
        return float(min(1.0, (self.batch_size / state.length) ** (2.0 / 3.0)))

    def _one_by_one(
        self, problem: Problem, sequence: Sequence, state: ControlledState, rows: Rows
    ) -> tuple[ControlledState, list[Info]]:
        old = self.old(problem, state, rows, state.row)
        rho = self.step_size(state)
        rule = RowRule(
            control=self.control,
            narrow=self.precision == "float32",
            share=1.0 / state.weight,
            first=state.row,
            length=state.length,
        )
        gamma, so_far = np.full(len(rows), rho), state.log_likelihood
        total, repairs, fresh = sequence.fold(rows, gamma, 0, rule, None, old, so_far)
        statistics, params = sequence.state()
        memory = None if state.memory is None else state.memory.written(state.row, fresh)
        after = replace(
            state,
            params=params,
            statistics=statistics,
            reference=sequence.reference(),
            memory=memory,
            row=state.row + len(rows),
            repairs=state.repairs + repairs,
            log_likelihood=total,
        )
        weight = rows.total_weight()
        return after, [Info(len(rows), (total - so_far) / weight, rho)] if weight else []

    def _update(
        self, problem: Problem, state: ControlledState
    ) -> tuple[ControlledState, list[Info]]:
        """One update with the gathered batch."""
        exchange = Exchange(self, problem, state)
        sums = total_of(exchange, state.gathered)
        state = replace(state, gathered=nothing(problem, 1), memory=exchange.memory())
        change, weight, n = sums[:-1], float(sums[-1]), exchange.state.gathered.n
        if not weight > 0:
            return state, []
        log_likelihood, change[0] = float(change[0]), 0.0
        rho = 1.0 - (1.0 - self.step_size(state)) ** (weight / self.batch_size)
        stale = 1.0 - exchange.begin / state.length if self.control == "fast" else 1.0
        target = stale * change / weight
        statistics, reference = self._moved(problem, state, change / state.weight, target, rho)
        params, repairs = problem.model.maximize(statistics)
        after = replace(
            state,
            params=params,
            statistics=statistics,
            reference=reference,
            repairs=state.repairs + repairs,
            log_likelihood=state.log_likelihood + log_likelihood,
        )
        return after, [Info(n, log_likelihood / weight, rho)]

    def _moved(
        self, problem: Problem, state: ControlledState, change: Array, target: Array, rho: float
    ) -> tuple[Any, Any]:
        """Statistics and reference after a batch: the one steps to reference plus `target`."""
        model, params = problem.model, state.params
        reference = model.sums(params, state.reference)
        moved = model.statistics(params, reference + change)
        if self.control == "incremental":
            return moved, moved
        sums = (1.0 - rho) * model.sums(params, state.statistics) + rho * (reference + target)
        return model.statistics(params, sums), moved if self.control == "fast" else state.reference

    def end_pass(
        self, problem: Problem, state: ControlledState
    ) -> tuple[ControlledState, list[Info]]:
        infos: list[Info] = []
        if state.phase == FILL:
            state, infos = self._filled(problem, state)
        elif state.gathered.n:
            state, infos = self._update(problem, state)
        return self._turned(state), infos

    def _filled(
        self, problem: Problem, state: ControlledState
    ) -> tuple[ControlledState, list[Info]]:
        """The reference is complete: an EM step."""
        exchange = Exchange(self, problem, state)
        sums = total_of(exchange, state.gathered)
        state = replace(state, gathered=nothing(problem, 1), memory=exchange.memory())
        statistics = problem.model.statistics(state.params, sums[:-1])
        weight = float(sums[-1])
        if not weight > 0:
            return state, []
        info = Info(state.row, statistics.log_likelihood / weight, 1.0)
        statistics = statistics.normalized()
        params, repairs = problem.model.maximize(statistics)
        after = replace(
            state,
            params=params,
            statistics=statistics,
            reference=statistics,
            anchor=state.params,
            phase=UPDATE,
            length=state.row,
            weight=weight,
            repairs=state.repairs + repairs,
            log_likelihood=info.log_likelihood * weight,
        )
        return after, [info]

    def _turned(self, state: ControlledState) -> ControlledState:
        now = state.log_likelihood / state.weight if state.weight else -np.inf
        ends_cycle = self.control == "anchored" and state.passes % 2 == 1
        return replace(
            state,
            phase=FILL if ends_cycle else state.phase,
            memory=None if state.memory is None else state.memory.turned(),
            row=0,
            passes=state.passes + 1,
            before=now,
            log_likelihood=0.0,
            converged=abs(now - state.before) < self.tol,
        )

    def finished(self, state: ControlledState) -> bool:
        return state.converged or state.passes >= self.most_passes

    def converged(self, state: ControlledState) -> bool:
        return state.converged or not self.tol

    def rest(self, state: ControlledState) -> ControlledState:
        return replace(state, memory=None)
