"""Learning from rows that keep coming: partial_fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mixfold.core.checks import check_kind
from mixfold.core.learner import Info, Learner, rows_before_start
from mixfold.core.problem import Model, Problem
from mixfold.core.rows import Rows, join
from mixfold.core.value import value
from mixfold.run.ancestor import Ancestor
from mixfold.run.starting import Beginning, warn_of


@value
class Stream:
    """The first rows while there are too few to start from, then a learner's state.

    `ancestors` are the states it has come from: the start, and every one that was shared.
    """

    waiting: Rows | None
    state: Any
    ancestors: list[Ancestor]

    def check(self, learner: Learner, model: Model) -> None:
        """Refuse what no rows of the model can have led to."""
        if self.waiting is not None:
            model.check_rows(self.waiting)
            check_kind("state while rows wait", self.state, type(None))
        if self.state is not None:
            learner.check_state(model, self.state)
        for ancestor in self.ancestors:
            ancestor.check(learner, model)

    def learn(
        self, problem: Problem, learner: Learner, beginning: Beginning, seed: int, rows: Rows
    ) -> tuple[Stream, list[Info]]:
        """Fold rows; how they are cut into calls makes no difference."""
        if self.state is not None:
            state, infos = learner.step(problem, self.state, rows)
            return replace(self, state=state), infos
        together = self._with(rows)
        first = self.first_rows(problem.model, learner, beginning, rows)
        if first is None:
            return Stream(together, None, []), []
        k, d = problem.model.k, problem.model.d
        warn_of(learner, problem.model, first)
        params = beginning.draw(problem, first, [seed, 0])
        credit = learner.credit(len(first), k, d)
        before = learner.init(problem, params, credit, seed)
        state, infos = learner.step(problem, before, together)
        return Stream(None, state, [Ancestor(before, 0, 0)]), infos

    def _with(self, rows: Rows) -> Rows:
        return rows.copy() if self.waiting is None else join([self.waiting, rows])

    def first_rows(
        self, model: Model, learner: Learner, beginning: Beginning, rows: Rows
    ) -> Rows | None:
        """The rows that a start is drawn from, once there are enough with these."""
        together, k = self._with(rows), model.k
        needed = min(rows_before_start(k, model.d), max(learner.sample_size, k))
        return None if beginning.random and len(together) < needed else together.cut(0, needed)

    def estimate(self, problem: Problem, learner: Learner, beginning: Beginning, seed: int) -> Any:
        """The present parameters; a provisional start while rows are waiting.

        Rows that wait for their batch to be full count as they would if no more came.
        """
        if self.state is not None:
            return learner.estimate(problem, learner.close(problem, self.state))
        assert self.waiting is not None
        # one candidate: with learn_one this is drawn anew for every row that waits
        return replace(beginning, candidates=1).draw(problem, self.waiting, [seed, 0])
