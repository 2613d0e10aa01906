"""Streams that are being learned one row at a time, without the ceremony of a call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np

from mixfold.core.problem import Sequence
from mixfold.core.rows import Array, Rows
from mixfold.engines.threads import Threads
from mixfold.estimators._learned import Learned
from mixfold.learners._stochastic import StochasticEM
from mixfold.learners.drift_aware import DriftAware

AHEAD = 1024


class Live(ABC):
    """A stream that goes on from what has been learned."""

    def __init__(self, learned: Learned, problem: Threads) -> None:
        self._from, self.problem = learned, problem
        self._done = 0
        self._d = problem.model.d

    @property
    def n_seen(self) -> int:
        """Rows learned."""
        return self._from.n_seen + self._done

    def accepts(self, x: Any) -> bool:
        """Whether `x` is a plain row of the right length."""
        return type(x) is np.ndarray and x.dtype == np.float64 and x.shape == (self._d,)

    def outside(self, x: Array) -> bool:
        """Whether the row lies outside the family's support."""
        family = self._from.model.family
        return family.scatter == "none" and bool(np.any(family.outside(x[None])))

    def learn(self, x: Array) -> None:
        """Fold one row."""
        self._fold(Rows(x[None]))
        self._done += 1

    def learned(self) -> Learned:
        """Everything learned so far, as a value."""
        known = self._from
        return replace(
            known,
            stream=replace(known.stream, state=self._state()),
            n_seen=self.n_seen,
            n_rows=known.n_rows + self._done,
        )

    @abstractmethod
    def _fold(self, row: Rows) -> None: ...

    @abstractmethod
    def _state(self) -> Any: ...


class InPlace(Live):
    """Every row is an update, on memory of its own."""

    def __init__(self, learned: Learned, problem: Threads, sequence: Sequence) -> None:
        super().__init__(learned, problem)
        self._sequence, self._rule = sequence, learned.learner.rule
        self._repairs = self._hold = self._next = 0
        self._gamma: Array = np.empty(0)
        state = learned.stream.state
        sequence.draw_from(state.seed, state.rows)

    def _fold(self, row: Rows) -> None:
        i = self._next
        if i == len(self._gamma):
            self._plan()
            i = 0
        hold = 1 if i < self._hold else 0
        _, repairs, _ = self._sequence.fold(row, self._gamma[i : i + 1], hold, self._rule)
        self._next = i + 1
        self._repairs += repairs

    def _plan(self) -> None:
        state, done = self._from.stream.state, self._done
        self._gamma, self._hold = self._from.learner.plan(
            state.updates + done, state.rows + done, AHEAD
        )

    def _state(self) -> Any:
        learner, state = self._from.learner, self._from.stream.state
        return learner.advance(state, self._sequence.state(), self._done, self._done, self._repairs)


class Stepwise(Live):
    """State after state, as the learner makes them."""

    def __init__(self, learned: Learned, problem: Threads) -> None:
        super().__init__(learned, problem)
        self._now = learned.stream.state

    def _fold(self, row: Rows) -> None:
        self._now, _ = self._from.learner.step(self.problem, self._now, row)

    def _state(self) -> Any:
        return self._now


class Watched(Live):
    """Learning that is watched: within a window nothing happens but what the inner rule does."""

    def __init__(self, learned: Learned, problem: Threads) -> None:
        super().__init__(learned, problem)
        self._begin(learned.stream.state)

    def _begin(self, state: Any) -> None:
        rule, stream = self._from.learner, self._from.stream
        self._before = state
        inner = replace(self._from, learner=rule.learner, stream=replace(stream, state=state.inner))
        self._inner = live_on(inner, self.problem)
        self._window = np.empty((max(1, rule.window - len(state.window)), self._d))
        self._length = 0

    def _fold(self, row: Rows) -> None:
        self._inner.learn(row.x[0])
        self._window[self._length] = row.x[0]
        self._length += 1
        if self._length == len(self._window):
            self._begin(self._state())

    def _state(self) -> Any:
        rows = Rows(self._window[: self._length])
        if not len(rows):
            return self._before
        inner = self._inner.learned().stream.state
        return self._from.learner.watched(self.problem, self._before, inner, rows)


def live_from(learned: Learned, problem: Threads) -> Live | None:
    """What goes on from the stream's state, if it has one yet."""
    return None if learned.stream.state is None else live_on(learned, problem)


def live_on(learned: Learned, problem: Threads) -> Live:
    """What goes on from the stream's state."""
    state, learner = learned.stream.state, learned.learner
    if isinstance(learner, DriftAware):
        return Watched(learned, problem)
    if isinstance(learner, StochasticEM) and learner.row_by_row():
        sequence = problem.sequence(state.statistics, state.params)
        if sequence is not None:
            return InPlace(learned, problem, sequence)
    return Stepwise(learned, problem)
