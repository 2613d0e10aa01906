"""Learning from rows that keep coming: partial_fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mixfold.core.learner import Info, Learner
from mixfold.core.rows import Rows, join
from mixfold.core.start import Start
from mixfold.core.value import value
from mixfold.engines.threads import Threads
from mixfold.run.starting import draw


def rows_before_start(k: int, d: int) -> int:
    """How many rows of a stream a start is drawn from."""
    return max(100, 20 * k, 5 * d)


@value
class Stream:
    """The first rows while there are too few to start from, then a learner's state."""

    waiting: Rows | None
    state: Any

    def learn(
        self, problem: Threads, learner: Learner, start: Start, seed: int, rows: Rows
    ) -> tuple[Stream, list[Info]]:
        """Fold rows; how they are cut into calls makes no difference."""
        if self.state is not None:
            state, infos = learner.step(problem, self.state, rows)
            return replace(self, state=state), infos
        together = rows.copy() if self.waiting is None else join([self.waiting, rows])
        needed = rows_before_start(problem.model.k, problem.model.d)
        if start.random and len(together) < needed:
            return Stream(together, None), []
        state = learner.init(problem, draw(problem, start, together.cut(0, needed), [seed, 0]))
        state, infos = learner.step(problem, state, together)
        return Stream(None, state), infos

    def estimate(self, problem: Threads, learner: Learner, start: Start, seed: int) -> Any:
        """The present parameters; a provisional start while rows are waiting."""
        if self.state is not None:
            return learner.estimate(problem, self.state)
        assert self.waiting is not None
        return draw(problem, start, self.waiting, [seed, 0])
