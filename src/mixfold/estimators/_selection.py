"""The fits of all candidates of a selection, in the same passes over the data."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from math import inf, isfinite

import numpy as np

from mixfold.core.errors import InvalidInputError
from mixfold.core.learner_capabilities import row_keeping
from mixfold.core.rows import Rows
from mixfold.core.source import Source
from mixfold.estimators._candidate_starts import FAILURES, LEAST_MARGIN, Starts
from mixfold.estimators._candidates import HELD_OUT, Candidate, Sums, sums_of
from mixfold.fitting.plan import FitPlan, GivenParams
from mixfold.fitting.shared_passes import Member, SharedBlocks, SharedPass, run_together
from mixfold.models.mixture_model import count_spurious

# passes that gain as much as the last one, which a candidate would have to make up for
PASSES_LEFT = 100

Progress = Callable[[int, int, int], None]
"""Takes how many searches and merges are done, how many there are in all, and passes made."""


class DrawnParams(GivenParams):
    """Initial parameters that were drawn, so that the order of components has no meaning."""

    random = True


@dataclass
class Selection:
    """Fits candidates to a source, and compares them by a criterion.

    `held_out` are rows that are not learned from, if the criterion needs them.
    """

    source: Source
    held_out: Source | None
    starts: Starts
    passes: int | None
    verbose: int
    progress: Progress | None = None

    @property
    def criterion(self) -> str:
        """The name of the criterion."""
        return self.starts.criterion

    def run(self, candidates: Sequence[Candidate]) -> Candidate:
        """Fit all candidates; the best of them."""
        own = [one for one in candidates if one.same is None]
        # covariances with many parameters first: more of the others are then behind the best
        names = list(dict.fromkeys(one.covariance for one in own))
        searches = 2 * len(own) - len(names)
        self.starts.done = self._counter(searches)
        for name in reversed(names):
            self.starts.find([one for one in own if one.covariance == name])
        self.starts.drop_hopeless(own)
        self._fit([one for one in own if not one.dropped], searches)
        for one in own:
            if one.params is None and one.start is not None:
                one.params = one.start.params
        self._evaluate([one for one in own if one.params is not None])
        self._report_spurious(own)
        return self._best(own)

    def _counter(self, searches: int) -> Callable[[], None]:
        """Reports how many of the searches are done, whenever it is called."""
        done = count(1)

        def report() -> None:
            if self.progress is not None:
                self.progress(next(done), searches, 0)

        return report

    def _fit(self, candidates: Sequence[Candidate], searches: int) -> None:
        """Run the fits of candidates in step."""
        shared = SharedBlocks(self.source)
        ready = [one for one in candidates if self._plan(one, shared)]
        members = [one.member for one in ready if one.member is not None]

        def leaving(going_on: Sequence[int]) -> list[int]:
            if self.progress is not None:
                passes = max(one.fit.passes for one in members)
                self.progress(searches, searches, passes)
            return self._hopeless(ready, going_on)

        try:
            run_together(members, leaving, (np.linalg.LinAlgError, ArithmeticError))
        finally:
            shared.close()
        for one, member in zip(ready, members, strict=True):
            one.seconds += member.seconds
            if member.error is not None:
                one.dropped, one.error = f"it failed: {member.error}", member.error
                continue
            learner, backend = member.plan.learner, member.plan.backend
            one.params = learner.estimate(backend, member.fit.state)
            one.converged = bool(member.fit.done and learner.converged(member.fit.state))

    def _plan(self, one: Candidate, shared: SharedBlocks) -> bool:
        """Make the plan of a fit; whether it could be made."""
        assert one.backend is not None
        assert one.start is not None
        settings, seed = one.settings, self.starts.seed
        learner = settings.learner.resolve(self.starts.memory.length, shared.d, False)
        learner = row_keeping(learner).searching_from(settings.initialization.kinds)
        check = settings.check(shared)
        size = settings.sample_size(self.starts.memory.rows)
        try:
            plan = FitPlan(
                one.backend,
                learner,
                shared,
                DrawnParams(one.start.params),
                seed=seed,
                prior_count=learner.prior_count(size, one.k, shared.d),
                passes=self.passes,
                check=check,
                pass_runner=SharedPass(one.backend, learner, shared, seed, check),
            )
        except FAILURES as error:
            one.dropped, one.error = f"it failed: {error}", error
            return False
        one.member = Member(plan)
        return True

    def _hopeless(self, ready: Sequence[Candidate], going_on: Sequence[int]) -> list[int]:
        """The fits that could not become the best, were all further gains like the last."""
        for number in going_on:
            self._note(ready[number])
        if not self.starts.drop or self.criterion not in ("bic", "aic"):
            return []
        best = min(self._present(one, 0) for one in ready)
        leaving = []
        for number in going_on:
            one = ready[number]
            if len(one.reached) > 2 and self._present(one, PASSES_LEFT) > best + LEAST_MARGIN:
                assert one.member is not None
                passes = one.member.fit.passes
                one.dropped = f"far behind the best in {self.criterion} after pass {passes}"
                leaving.append(number)
        return leaving

    def _note(self, one: Candidate) -> None:
        """Note the log-likelihood of a pass over all rows, if no update was made within it."""
        assert one.member is not None
        if one.sums_passes:
            one.reached.append(one.member.fit.log_likelihood)
        one.sums_passes = one.member.plan.learner.is_reduction(one.member.fit.state)

    def _present(self, one: Candidate, more: int) -> float:
        """The criterion after so many more gains like the last; infinity if nothing is known."""
        if not one.reached:
            return inf
        weight = self.starts.memory.weight
        gain = max([0.0, *(b - a for a, b in pairwise(one.reached[-3:]))])
        total = weight * (one.reached[-1] + more * gain)
        return Sums(weight, total).criteria(one.model.n_parameters())[self.criterion]

    def _evaluate(self, candidates: Sequence[Candidate]) -> None:
        """The criteria of all candidates, in one pass."""

        def evaluated(source: Source) -> list[Sums]:
            found = [Sums() for _ in candidates]
            for rows in source.blocks():
                found = [
                    sums + self._sums(one, rows)
                    for one, sums in zip(candidates, found, strict=True)
                ]
            return found

        for one, sums in zip(candidates, evaluated(self.source), strict=True):
            one.sums = sums
        if self.held_out is not None:
            for one, sums in zip(candidates, evaluated(self.held_out), strict=True):
                one.held_out = sums.log_likelihood / sums.weight
        if self.verbose:
            for one in candidates:
                self._tell(one)

    def _sums(self, one: Candidate, rows: Rows) -> Sums:
        assert one.backend is not None
        assert one.params is not None
        return sums_of(one.backend, one.params, rows)

    def _tell(self, one: Candidate) -> None:
        reached = -one.loss(HELD_OUT) if self.criterion == HELD_OUT else one.loss(self.criterion)
        why = f" ({one.dropped})" if one.dropped else ""
        print(f"mixfold: {one.name}: {self.criterion} {reached:.8g}{why}", file=sys.stderr)

    def _report_spurious(self, candidates: Sequence[Candidate]) -> None:
        """Say which candidates have components on few rows."""
        rows = self.starts.memory.rows.whole()
        for one in candidates:
            if one.params is None or one.dropped:
                continue
            number = count_spurious(one.model, one.params, [rows])
            if number:
                one.dropped = f"{number} of its components are degenerate and have few rows"

    def _best(self, candidates: Sequence[Candidate]) -> Candidate:
        """The best candidate that was fitted, if possible one that was not dropped."""
        fitted = [
            one for one in candidates if one.error is None and isfinite(one.loss(self.criterion))
        ]
        fitted = [one for one in fitted if one.member is not None]
        if not fitted:
            errors = [one.error for one in candidates if one.error is not None]
            raise errors[0] if errors else InvalidInputError("no candidate could be fitted")
        complete = [one for one in fitted if not one.dropped]
        return min(complete or fitted, key=lambda one: one.loss(self.criterion))
