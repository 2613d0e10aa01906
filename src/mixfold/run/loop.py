"""The only loop: starts, passes, blocks; with progress, checkpoints and resuming."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from math import isnan
from typing import Any

from mixfold.core.errors import InvalidInputError, ModelFileError
from mixfold.core.learner import Info, Learner
from mixfold.core.problem import Problem
from mixfold.core.source import Source
from mixfold.run.component_order import ranked
from mixfold.run.fit import Fit
from mixfold.run.history import no_history
from mixfold.run.passing import Check, InBlocks, Passing, no_check
from mixfold.run.progress import Progress, Silent
from mixfold.run.starting import check_served


class Loop:
    """Folds a source into a learner's state, by default block after block."""

    def __init__(
        self,
        problem: Problem,
        learner: Learner,
        source: Source,
        starts: list[Callable[[], Any]],
        *,
        seen: int = 0,
        seed: int = 0,
        passes: int | None = None,
        check: Check = no_check,
        passing: Passing | None = None,
        keep: Callable[[Fit], None] = lambda fit: None,
        progress: Progress | None = None,
    ) -> None:
        check_served(learner, problem.model)
        self.problem, self.learner, self.source, self.starts = problem, learner, source, [*starts]
        self.seen, self.seed, self.passes = seen, seed, passes
        self.keep, self.progress = keep, progress or Silent()
        self.passing = passing or InBlocks(problem, learner, source, seed, check)
        if learner.rereads and not source.rereadable:
            raise InvalidInputError(
                f"{type(learner).__name__} goes back to rows it has seen, and this source can be "
                "read only once: give an array, a table or a file, or use learner='online-em'"
            )
        self.fit = Fit(None, no_history())

    def run(self, fit: Fit | None = None) -> Fit:
        """Learn to the end, from the beginning or from where `fit` stands.

        `self.fit` is what has been learned at any moment, also after an interrupt.
        """
        if fit is not None and fit.start >= len(self.starts):
            raise ModelFileError(
                f"the fit to resume is at start number {fit.start}, of {len(self.starts)}: it is "
                "of another fit; remove the checkpoint"
            )
        self._began = time.monotonic() - (fit.seconds if fit else 0.0)
        self.fit = fit or self._begun(0)
        if self.fit.done and not self._over(self.fit):  # resumed with a larger budget
            self.fit = replace(self.fit, done=False)
        try:
            while not self.fit.done:
                if not self._over(self.fit) and not self._leap():
                    self._one_pass()
                    self._end_pass()
                if self._over(self.fit):
                    self._next_start()
        finally:
            self.progress.close()
            self.learner.release(self.fit.state)
        return self.fit

    def _begun(self, start: int) -> Fit:
        # a start is made once; after the last one the sample behind them can go
        params, self.starts[start] = self.starts[start](), spent
        state = self.learner.init(self.problem, params, self.seen, self.seed)
        return Fit(state, no_history(), start, seed=self.seed, origin=state)

    def _leap(self) -> bool:
        """Make several passes at once, if that can be done."""
        most = None if self.passes is None else self.passes - self.fit.passes
        leapt = self.passing.leap(self.fit, most)
        if leapt is None:
            return False
        state, infos, rows = leapt
        moved = self._moved(self.fit, state, infos, len(infos) * rows)
        self.fit = replace(moved, passes=self.fit.passes + len(infos), row=0, length=rows)
        self._tell()
        return True

    def _one_pass(self) -> None:
        for state, infos, row in self.passing.moves(self.fit):
            self.fit = self._moved(self.fit, state, infos, row)
            self._tell()

    def _moved(self, fit: Fit, state: Any, infos: list[Info], row: int) -> Fit:
        seconds = time.monotonic() - self._began
        return replace(
            fit,
            state=state,
            history=fit.history.extended(infos, seconds),
            row=row,
            rows_seen=fit.rows_seen + row - fit.row,
            seconds=seconds,
        )

    def _over(self, fit: Fit) -> bool:
        """Whether the present start has had all its passes."""
        enough = self.passes is not None and fit.passes >= self.passes
        spent = fit.passes > 0 and not self.source.rereadable
        return enough or spent or self.learner.finished(fit.state)

    def _end_pass(self) -> None:
        fit = self.fit
        state, infos = self.learner.end_pass(self.problem, fit.state)
        after = replace(
            self._moved(fit, state, infos, fit.row), passes=fit.passes + 1, row=0, length=fit.row
        )
        check_some(fit.row, len(after.history))
        self.fit = after
        if self._over(after):  # what is kept next is the beginning of another start, or the end
            self.progress.update(after, self.source.length)
        else:
            self._tell()

    def _next_start(self) -> None:
        """Keep the better of this start and those before; begin another if one is left."""
        fit, best = self.fit, self.fit.best
        if best is None or _beats(fit, best):
            best = replace(fit, best=None)
        if fit.start + 1 == len(self.starts):
            self.fit = replace(best, done=True, best=None, start=fit.start, rows_seen=fit.rows_seen)
        else:
            self.learner.release(fit.state)
            self.fit = replace(
                self._begun(fit.start + 1),
                rows_seen=fit.rows_seen,
                seconds=fit.seconds,
                best=best,
            )
        self._tell()

    def _tell(self) -> None:
        self.progress.update(self.fit, self.source.length)
        self.keep(self.fit)


def spent() -> Any:
    """In place of a start that was made."""
    raise AssertionError("a start is made once")


def check_some(rows: int, weight: float) -> None:
    """Refuse data without rows, or without any row that counts."""
    if rows == 0:
        raise InvalidInputError("the data have no rows: at least one is needed")
    if weight == 0:
        raise InvalidInputError("all of sample_weight is zero: at least one row must count")


def _beats(fit: Fit, best: Fit) -> bool:
    reached = best.log_likelihood
    return isnan(reached) or ranked([reached, fit.log_likelihood])[0] == 1
