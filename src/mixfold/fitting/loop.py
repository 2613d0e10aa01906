"""The loop of all fits over initialisations, passes and blocks."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import closing
from math import isnan
from typing import Any

from mixfold.core.backend import Backend
from mixfold.core.errors import InvalidInputError
from mixfold.core.learner import Info, Learner
from mixfold.core.learner_capabilities import search_of
from mixfold.core.ranking import ranked
from mixfold.core.rows import Rows
from mixfold.core.source import no_check
from mixfold.core.value import replace
from mixfold.fitting.fit import Fit
from mixfold.fitting.history import no_history
from mixfold.fitting.pass_runner import LocalPass
from mixfold.fitting.plan import FitPlan, GivenParams
from mixfold.sources.array_source import ArraySource


class Loop:
    """Updates a learner's state with the rows of a source, by default block by block."""

    def __init__(self, plan: FitPlan) -> None:
        self.plan, self.learner, self.backend = plan, plan.learner, plan.backend
        self.pass_runner = plan.pass_runner or LocalPass(
            plan.backend, plan.learner, plan.source, plan.seed, plan.check
        )
        self.fit = Fit(None, no_history())

    def run(self) -> Fit:
        """Fit until the learner is finished, from the beginning or from the resumed fit.

        `self.fit` is the current state, also after an interrupt.
        """
        with closing(self.iter_fits()) as fits:
            for _ in fits:
                pass
        return self.fit

    def iter_fits(self) -> Generator[Fit, None, None]:
        """Fit, and yield the state after every block and every pass."""
        resumed = self.plan.resumed
        self._began = time.monotonic() - (resumed.seconds if resumed else 0.0)
        self.fit = resumed or self._begun(0)
        if self.fit.done and not self._over(self.fit):  # resumed with a larger number of passes
            self.fit = replace(self.fit, done=False)
        try:
            while not self.fit.done:
                if not self._over(self.fit):
                    yield from self._passes()
                if self._over(self.fit):
                    self._next_start()
        finally:
            self.plan.progress.close()
            self.learner.release(self.fit.state)
            if self.plan.checkpoint is not None and self.fit.rows_seen:
                self.plan.checkpoint.write(self.fit)

    def _begun(self, start: int) -> Fit:
        plan = self.plan
        params = plan.initial_params.params(start)
        state = self.learner.init(self.backend, params, plan.prior_count, plan.seed)
        return Fit(state, no_history(), start, seed=plan.seed, origin=state)

    def _run_passes(self) -> bool:
        """Make several passes at once, if the learner and the backend can."""
        most = None if self.plan.passes is None else self.plan.passes - self.fit.passes
        made = self.pass_runner.run_passes(self.fit, most)
        if made is None:
            return False
        state, infos, rows = made
        moved = self._moved(self.fit, state, infos, len(infos) * rows)
        self.fit = replace(moved, passes=self.fit.passes + len(infos), row=0, length=rows)
        self._tell()
        return True

    def _passes(self) -> Iterator[Fit]:
        """Several passes at once, or one."""
        if not self._run_passes():
            for state, infos, row in self.pass_runner.states(self.fit):
                self.fit = self._moved(self.fit, state, infos, row)
                self._tell()
                yield self.fit
            self._end_pass()
        yield self.fit

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
        """Whether the current initialisation has had all its passes."""
        enough = self.plan.passes is not None and fit.passes >= self.plan.passes
        spent = fit.passes > 0 and not self.plan.source.rereadable
        return enough or spent or self.learner.finished(fit.state)

    def _end_pass(self) -> None:
        fit = self.fit
        state, infos = self.learner.end_pass(self.backend, fit.state)
        after = replace(
            self._moved(fit, state, infos, fit.row), passes=fit.passes + 1, row=0, length=fit.row
        )
        check_some(fit.row, len(after.history))
        self.fit = after
        # the next checkpoint is the beginning of another initialisation, or the end
        if self._over(after):
            self.plan.progress.update(after, self.plan.source.length)
        else:
            self._tell()

    def _next_start(self) -> None:
        """Keep the better of this fit and those before; begin another if one is left."""
        fit, best = self.fit, self.fit.best
        if best is None or self._beats(fit, best):
            best = replace(fit, best=None)
        if fit.start + 1 == len(self.plan.initial_params):
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

    def _beats(self, fit: Fit, best: Fit) -> bool:
        """Whether a fit has reached more than the best before; with a prior, in the likelihood too.

        So more initialisations never lower the likelihood of the rows, nor the sum with the prior.
        """
        if isnan(best.objective):
            return True
        higher = _is_higher(fit.objective, best.objective)
        if search_of(self.learner).prior_strength == 0.0:
            return higher
        return higher and not _is_higher(best.log_likelihood, fit.log_likelihood)

    def _tell(self) -> None:
        self.plan.progress.update(self.fit, self.plan.source.length)
        if self.plan.checkpoint is not None:
            self.plan.checkpoint.keep(self.fit)


def fit_rows(
    backend: Backend, learner: Learner, params: Any, rows: Rows, prior_count: int = 0
) -> Fit:
    """Fit rows in memory, from given parameters."""
    source = ArraySource(rows.x, rows.weight)
    return Loop(
        FitPlan(backend, learner, source, GivenParams(params), prior_count=prior_count)
    ).run()


def iter_fits(
    backend: Backend, learner: Learner, params: Any, rows: Rows, length: int
) -> Generator[Fit, None, None]:
    """Fit rows in memory, and yield the state after every `length` rows and every pass."""
    source = ArraySource(rows.x, rows.weight)
    pass_runner = LocalPass(backend, learner, source, 0, no_check, length)
    plan = FitPlan(backend, learner, source, GivenParams(params), pass_runner=pass_runner)
    return Loop(plan).iter_fits()


def check_some(rows: int, weight: float) -> None:
    """Raise an error for data without rows, or without a row of positive weight."""
    if rows == 0:
        raise InvalidInputError("the data have no rows: at least one is needed")
    if weight == 0:
        raise InvalidInputError("all of sample_weight is zero: at least one must be positive")


def _is_higher(one: float, other: float) -> bool:
    """Whether a score is higher than another one, by more than rounding."""
    return ranked([other, one])[0] == 1
