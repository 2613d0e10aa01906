"""The only loop: starts, passes, blocks; with progress, checkpoints and resuming."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mixfold.core.errors import InvalidInputError
from mixfold.core.learner import Info, Learner
from mixfold.core.rows import Rows
from mixfold.core.source import Source
from mixfold.engines.threads import Threads
from mixfold.run.fit import Fit
from mixfold.run.history import no_history
from mixfold.run.progress import Progress, Silent
from mixfold.sources._prefetch import prefetched
from mixfold.sources._resampled import Resampled


class Loop:
    """Folds a source into a learner's state."""

    def __init__(
        self,
        problem: Threads,
        learner: Learner,
        source: Source,
        starts: list[Callable[[], Any]],
        *,
        seen: int = 0,
        seed: int = 0,
        passes: int | None = None,
        check: Callable[[Rows, Sequence[int]], None] = lambda rows, numbers: None,
        keep: Callable[[Fit], None] = lambda fit: None,
        progress: Progress | None = None,
    ) -> None:
        self.problem, self.learner, self.source, self.starts = problem, learner, source, starts
        self.seen, self.seed, self.passes = seen, seed, passes
        self.check, self.keep, self.progress = check, keep, progress or Silent()
        self.order = learner.order(source.random_access)
        if self.order != "stream" and not source.random_access:
            raise InvalidInputError(
                f"sampling={self.order!r} needs a source that can be indexed, such as an array or "
                "a .npy file: use sampling='stream'"
            )
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
        self._began = time.monotonic() - (fit.seconds if fit else 0.0)
        self.fit = fit or self._begun(0)
        if self.fit.done and not self._over(self.fit):  # resumed with a larger budget
            self.fit = replace(self.fit, done=False)
        try:
            while not self.fit.done:
                if not self._over(self.fit):
                    self._one_pass()
                    self._end_pass()
                if self._over(self.fit):
                    self._next_start()
        finally:
            self.progress.close()
        return self.fit

    def _begun(self, start: int) -> Fit:
        state = self.learner.init(self.problem, self.starts[start](), self.seen, self.seed)
        return Fit(state, no_history(), start, seed=self.seed, origin=state)

    def _one_pass(self) -> None:
        fit = self.fit
        numbers, blocks = self._blocks(fit)
        # a pass with replacement may be the first to see a row
        unseen = self.order == "with-replacement" or (fit.passes == 0 and fit.start == 0)
        for rows in blocks:
            if unseen:
                self.check(rows, numbers[fit.row : fit.row + len(rows)])
            state, infos = self.learner.step(self.problem, fit.state, rows)
            fit = self._moved(fit, state, infos, fit.row + len(rows))
            self.fit = fit
            self._tell()

    def _blocks(self, fit: Fit) -> tuple[Sequence[int], Iterator[Rows]]:
        """The numbers of the rows of this pass, and the blocks still to come."""
        if self.order == "stream":
            return range(sys.maxsize), prefetched(self.source.blocks(fit.row))
        drawn = Resampled(self.source, self.order, [self.seed, fit.start, fit.passes])
        return drawn.indices, prefetched(drawn.blocks(fit.row))  # type: ignore[return-value]

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


def check_some(rows: int, weight: float) -> None:
    """Refuse data without rows, or without any row that counts."""
    if rows == 0:
        raise InvalidInputError("the data have no rows: at least one is needed")
    if weight == 0:
        raise InvalidInputError("all of sample_weight is zero: at least one row must count")


def _beats(fit: Fit, best: Fit) -> bool:
    return bool(fit.log_likelihood > best.log_likelihood or np.isnan(best.log_likelihood))
