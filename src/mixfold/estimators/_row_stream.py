"""Working copies of a model for `learn_one`, without the overhead of `partial_fit`.

One thread learns; others may read `learned` at any time, and get the state after some row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from threading import Lock
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np

from mixfold.core.backend import RowOptions
from mixfold.core.backend_capabilities import RowUpdater, row_updater
from mixfold.core.learner_capabilities import MonitorsDrift, row_keeping
from mixfold.core.rows import Array, Rows
from mixfold.core.value import replace
from mixfold.estimators._learned import Learned
from mixfold.estimators._row_bounds import RowBounds
from mixfold.fitting.initialization import Initialization
from mixfold.models.mixture_model import MixtureBackend

FLOAT64 = np.dtype(np.float64)
AHEAD = 1024
AT_ONCE = 256  # rows that are collected before the learner is given them


class Settled(NamedTuple):
    """What was learned from `done` rows here; parameters do not change before row `until`."""

    done: int
    until: int
    learned: Learned


class RowStream(ABC):
    """A stream that continues from a learned state."""

    def __init__(
        self, learned: Learned, backend: MixtureBackend, initialization: Initialization
    ) -> None:
        self._from, self.backend, self.initialization = learned, backend, initialization
        self._d = backend.model.d
        self._shape = (self._d,)
        self.bounds = RowBounds(backend.model.family, self._d)
        self._settled: Settled | None = None

    @property
    def n_rows(self) -> int:
        """Rows learned, each counted once."""
        return self._from.n_rows + self.done

    def accepts(self, x: Any) -> bool:
        """Whether `x` is a plain row of the right length."""
        return type(x) is np.ndarray and x.dtype == FLOAT64 and x.shape == self._shape

    def learned(self) -> Learned:
        """Everything learned so far, as a value."""
        return self._with(*self.moment())

    def settled(self) -> Learned:
        """The learned state with up-to-date parameters, cached until there are more rows."""
        kept = self._settled
        if kept is not None and kept.done == self.done:
            return kept.learned
        state, done = self.moment()
        learned = self._with(state, done).settle(self.backend, self.initialization)
        until = done + row_keeping(learned.learner).rows_until_change(learned.training_model, state)
        self._settled = Settled(done, until, learned)
        return learned

    def unchanged(self) -> Learned | None:
        """What `settled` last returned, if the rows since have not changed the parameters."""
        kept = self._settled
        return None if kept is None or self.done >= kept.until else kept.learned

    def current(self) -> Learned | None:
        """The same with all rows counted, but the state of the stream lacks the latest ones."""
        kept, before = self._settled, self._from
        done = self.done  # read once, and last: another thread may learn rows meanwhile
        if kept is None or done >= kept.until:
            return None
        return replace(kept.learned, n_seen=before.n_seen + done, n_rows=before.n_rows + done)

    def params(self) -> Any:
        """Up-to-date parameters."""
        return self.settled().params

    def _with(self, state: Any, done: int) -> Learned:
        known = self._from
        return replace(
            known,
            stream=replace(known.stream, state=state),
            n_seen=known.n_seen + done,
            n_rows=known.n_rows + done,
        )

    @property
    @abstractmethod
    def done(self) -> int:
        """Rows learned here."""

    @abstractmethod
    def learn(self, x: Array) -> None:
        """Learn one row; an interrupt leaves it either learned or not."""

    @abstractmethod
    def moment(self) -> tuple[Any, int]:
        """A consistent pair of the learner's state and the number of rows learned here."""


class RowCounts(Protocol):
    """The rows behind a learner's statistics, as the learner counts them."""

    def after(self, weights: Array | int) -> Self:
        """With so many more rows."""
        ...


@runtime_checkable
class UpdatesByRow(Protocol):
    """A learner with an update after every row."""

    @property
    def options(self) -> RowOptions:
        """The options of an update."""
        ...

    def row_by_row(self) -> bool:
        """Whether every row is an update and nothing else happens between them."""
        ...

    def row_steps(self, learned: Any, weights: Array | int) -> Array:
        """Step sizes of the next rows."""
        ...

    def estimates_last(self, state: Any) -> bool:
        """Whether the estimate is the last parameters, those that updates change."""
        ...

    def warm_up_rows(self, state: Any, n: int) -> int:
        """For how many of the next n rows parameters are not updated."""
        ...

    def advance(
        self, state: Any, after: tuple[Any, Any], n: int, learned: Any, n_degenerate: int
    ) -> Any:
        """The state after n more rows."""
        ...


class Planned(NamedTuple):
    """Step sizes of rows from number `first` on, and how many do not update parameters."""

    first: int
    counts: RowCounts
    gamma: Array
    hold: int

    def counts_after(self, done: int) -> RowCounts:
        """The counts after this many rows."""
        return self.counts.after(done - self.first)


class CompiledRowStream(RowStream):
    """Updates after every row in compiled code, on its own memory."""

    def __init__(
        self,
        learned: Learned,
        backend: MixtureBackend,
        initialization: Initialization,
        updater: RowUpdater,
    ) -> None:
        super().__init__(learned, backend, initialization)
        self._updater, self._options = updater, learned.learner.options
        self._lock = Lock()  # rows are folded while other threads run
        self._planned = Planned(0, learned.stream.state.learned, np.empty(0), 0)
        self._done: int | None = 0  # as the updater counts; None after an interrupt
        state = learned.stream.state
        updater.draw_from(state.seed, state.rows)
        self._last: tuple[int, Any] = (-1, None)  # parameters after so many rows
        self.can_evaluate = bool(learned.learner.estimates_last(state))

    @property
    def done(self) -> int:
        return self._updater.rows

    def learn(self, x: Array) -> None:
        with self._lock:
            done = self._updater.rows if self._done is None else self._done
            first, _, gamma, hold = self._planned
            if done >= first + len(gamma):
                self._planned = first, _, gamma, hold = self._plan(done)
            i = done - first
            try:
                self._updater.fold(Rows(x[None]), gamma[i : i + 1], int(i < hold), self._options)
                self._done = done + 1
            except BaseException:
                self._done = None
                raise

    def params(self) -> Any:
        """Up-to-date parameters; without what `settled` computes besides, as scores need these."""
        last = self._last  # read once: another thread may replace it by earlier ones
        if last[0] != self.done:
            state, done = self.moment()
            self._last = last = done, self._from.learner.estimate(self.backend, state)
        return last[1]

    def evaluate(self, x: Array, responsibilities: bool) -> tuple[Array, Array | None]:
        """log p of every row under the current parameters and, if wanted, responsibilities."""
        with self._lock:
            return self._updater.evaluate(x, responsibilities)

    def _plan(self, done: int) -> Planned:
        learner, state = self._from.learner, self._from.stream.state
        counts = self._planned.counts_after(done)
        gamma = learner.row_steps(counts, AHEAD)
        hold = learner.warm_up_rows(replace(state, rows=state.rows + done), AHEAD)
        return Planned(done, counts, gamma, hold)

    def moment(self) -> tuple[Any, int]:
        with self._lock:
            after, done = self._updater.state(), self._updater.rows
            n_degenerate, planned = self._updater.n_degenerate, self._planned
        learner, state = self._from.learner, self._from.stream.state
        return learner.advance(state, after, done, planned.counts_after(done), n_degenerate), done


class Collected(NamedTuple):
    """A state of the learner, and `used` rows of a buffer that it has not learned yet.

    `first` is the number of rows that it has learned here.
    """

    state: Any
    first: int
    buffer: Array
    used: int


class BatchedRowStream(RowStream):
    """Updates by the `step` method of the learner, with some rows at a time."""

    def __init__(
        self, learned: Learned, backend: MixtureBackend, initialization: Initialization
    ) -> None:
        super().__init__(learned, backend, initialization)
        self._lock = Lock()  # a read gives the learner the rows collected so far
        self._now = Collected(learned.stream.state, 0, np.empty((AT_ONCE, self._d)), 0)

    @property
    def done(self) -> int:
        now = self._now
        return now.first + now.used

    def learn(self, x: Array) -> None:
        with self._lock:
            state, first, buffer, used = self._now
            buffer[used] = x
            now = Collected(state, first, buffer, used + 1)
            self._now = self._stepped(now) if now.used == len(buffer) else now

    def _stepped(self, now: Collected) -> Collected:
        """The state after the collected rows, of which none are left."""
        if not now.used:
            return now
        rows = Rows(now.buffer[: now.used].copy())
        state = self._from.learner.step(self.backend, now.state, rows)[0]
        return Collected(state, now.first + now.used, now.buffer, 0)

    def moment(self) -> tuple[Any, int]:
        with self._lock:
            self._now = now = self._stepped(self._now)
        return now.state, now.first

    def settled(self) -> Learned:
        """The learned state with up-to-date parameters, from which later reads continue."""
        learned, settled = super().settled(), self._settled
        with self._lock:
            if settled is not None and self._now.first == settled.done:
                # else another thread has learned more rows
                self._now = self._now._replace(state=settled.learned.stream.state)
        return learned


class Window(NamedTuple):
    """The current window of rows.

    `before` is the state before the window, `inner` learns its rows, `rows` is a buffer for them,
    and `first` is the number of rows learned before.
    """

    before: Any
    inner: RowStream
    rows: Array
    first: int


class DriftRowStream(RowStream):
    """A stream with drift detection: within a window only the inner learner is updated."""

    def __init__(
        self, learned: Learned, backend: MixtureBackend, initialization: Initialization
    ) -> None:
        super().__init__(learned, backend, initialization)
        self._lock = Lock()  # a read replaces the fits in the state before the window
        self._window = self._begun(learned.stream.state, 0)

    def _begun(self, state: Any, first: int) -> Window:
        learner, stream = self._from.learner, self._from.stream
        inner = replace(
            self._from, learner=learner.learner, stream=replace(stream, state=state.inner)
        )
        room = np.empty((max(1, learner.window - len(state.window)), self._d))
        return Window(state, live_on(inner, self.backend, self.initialization), room, first)

    @property
    def done(self) -> int:
        window = self._window
        return window.first + window.inner.done

    def learn(self, x: Array) -> None:
        with self._lock:
            if self._window.inner.done == len(self._window.rows):
                self._window = self._begun(*self.moment())
            window = self._window
            window.rows[window.inner.done] = x
            window.inner.learn(x)

    def settled(self) -> Learned:
        """The learned state with up-to-date parameters, from which later reads continue."""
        learned, settled = super().settled(), self._settled
        with self._lock:
            if settled is not None and settled.done == self.done:
                # else another thread has learned more rows
                self._continue_from(settled)
        return learned

    def _continue_from(self, settled: Settled) -> None:
        """Later reads continue from these fits; those after a whole window include its rows."""
        window, state = self._window, settled.learned.stream.state
        if window.inner.done == len(window.rows):
            self._window = self._begun(state, settled.done)
        else:
            before = replace(window.before, recent=state.recent)
            self._window = window._replace(before=before)

    def moment(self) -> tuple[Any, int]:
        window = self._window
        inner, done = window.inner.moment()
        if not done:
            return window.before, window.first
        rows = Rows(window.rows[:done])
        state = self._from.learner.monitored(self.backend, window.before, inner, rows)
        return state, window.first + done


def live_from(
    learned: Learned, backend: MixtureBackend, initialization: Initialization
) -> RowStream | None:
    """The working copy that continues from the stream's state; None before the initialisation."""
    return None if learned.stream.state is None else live_on(learned, backend, initialization)


def live_on(learned: Learned, backend: MixtureBackend, initialization: Initialization) -> RowStream:
    """The working copy that continues from the stream's state."""
    state, learner = learned.stream.state, learned.learner
    if isinstance(learner, MonitorsDrift):
        return DriftRowStream(learned, backend, initialization)
    if isinstance(learner, UpdatesByRow) and learner.row_by_row():
        updater = row_updater(backend, state.statistics, state.params)
        if updater is not None:
            return CompiledRowStream(learned, backend, initialization, updater)
    return BatchedRowStream(learned, backend, initialization)
