"""Learning from a stream of rows, for partial_fit."""

from __future__ import annotations

from typing import Any

from mixfold.core.backend import Model
from mixfold.core.checks import check_kind
from mixfold.core.learner import Info, Learner
from mixfold.core.learner_capabilities import row_keeping
from mixfold.core.rows import Rows, join
from mixfold.core.value import replace, value
from mixfold.fitting.initialization import Initialization, warn_of
from mixfold.fitting.snapshot import Snapshot
from mixfold.models.mixture_model import MixtureBackend


@value
class Stream:
    """The first rows, while there are too few to initialise, then a learner's state.

    `snapshots` are earlier states: the initial one, and every one that was copied.
    """

    waiting: Rows | None
    state: Any
    snapshots: list[Snapshot]

    def check(self, learner: Learner, model: Model) -> None:
        """Raise an error for an invalid stream."""
        if self.waiting is not None:
            model.check_rows(self.waiting)
            check_kind("state before the initialisation", self.state, type(None))
        if self.state is not None:
            learner.check_state(model, self.state)
        for snapshot in self.snapshots:
            snapshot.check(learner, model)

    def learn(
        self,
        backend: MixtureBackend,
        learner: Learner,
        initialization: Initialization,
        seed: int,
        rows: Rows,
    ) -> tuple[Stream, list[Info]]:
        """Update with rows; the result does not depend on how they are divided into calls."""
        if self.state is not None:
            state, infos = learner.step(backend, self.state, rows)
            return replace(self, state=state), infos
        together = self._with(rows)
        first = self.first_rows(backend.model, learner, initialization, rows)
        if first is None:
            return Stream(together, None, []), []
        k, d = backend.model.k, backend.model.d
        warn_of(learner, backend.model, first)
        if row_keeping(learner).searches_later:
            initialization = replace(initialization, candidates=1)
        params = initialization.draw(backend, first, [seed, 0])
        prior_count = learner.prior_count(len(first), k, d)
        before = learner.init(backend, params, prior_count, seed)
        state, infos = learner.step(backend, before, together)
        return Stream(None, state, [Snapshot(before, 0, 0)]), infos

    def _with(self, rows: Rows) -> Rows:
        return rows.copy() if self.waiting is None else join([self.waiting, rows])

    def first_rows(
        self, model: Model, learner: Learner, initialization: Initialization, rows: Rows
    ) -> Rows | None:
        """The rows for the initialisation, once there are enough."""
        together, needed = self._with(rows), row_keeping(learner).rows_to_start(model.k, model.d)
        return None if initialization.random and len(together) < needed else together.cut(0, needed)

    def estimate(
        self, backend: MixtureBackend, learner: Learner, initialization: Initialization, seed: int
    ) -> Any:
        """The current parameters; provisional ones before the initialisation.

        Rows of an incomplete batch are included, as at the end of a stream.
        """
        if self.state is not None:
            return learner.estimate(backend, learner.flushed(backend, self.state))
        assert self.waiting is not None
        # one candidate: with learn_one they are drawn again for every row
        return replace(initialization, candidates=1).draw(backend, self.waiting, [seed, 0])
