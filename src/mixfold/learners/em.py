"""Expectation-maximisation over whole passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from mixfold.core.backend import Assignment, Backend, Model
from mixfold.core.backend_capabilities import FusedPasses
from mixfold.core.checks import (
    check_above,
    check_array,
    check_count,
    check_kind,
    check_least,
    check_whole,
)
from mixfold.core.errors import InvalidInputError, unknown_name
from mixfold.core.learner import Info, Learner
from mixfold.core.params import Params
from mixfold.core.rows import Rows
from mixfold.core.value import replace, value
from mixfold.learners._acceleration import (
    MOST_PAIRS,
    anderson,
    extrapolate,
    pairs_to_keep,
)
from mixfold.learners._convergence import (
    CRITERIA,
    ROUNDING,
    TOL,
    WINDOW,
    Criterion,
    has_converged,
    with_gain,
)
from mixfold.learners._gathering import (
    Fold,
    Gathered,
    added,
    closed,
    expecting,
    gather,
    nothing,
    total,
)
from mixfold.learners._merging import check_same_pass, in_order
from mixfold.learners._penalty import with_prior

Phase = Literal["plain", "second", "extrapolated", "combined"]
PLAIN: Phase = "plain"
SECOND: Phase = "second"
EXTRAPOLATED: Phase = "extrapolated"
COMBINED: Phase = "combined"
FIRST_REACH, LEAST_REACH = 4.0, 2.0
NEAR = 1.0  # gain of a step in nats below which the likelihood is nearly quadratic


@value
class EMState:
    """Current parameters, the sums of the current pass, and the history for acceleration.

    `before` is the mean log-likelihood, and log density of the prior if there is one, of the point
    whose M-step gave `params`, and `gains` are
    those of the last plain steps, in nats of all rows. `trail` holds the earlier points of an
    acceleration cycle, `reach` is the largest length of the next extrapolation, and `refused` is
    true if the last combination of steps was worse than a plain one. `weight` is that of all rows,
    and `lightest` the smallest above zero, in units of which the prior counts.
    """

    params: Params
    gathered: Gathered
    passes: int
    before: float
    converged: bool
    n_degenerate: int
    phase: Phase
    trail: list[Params]
    reach: float
    gains: list[float]
    refused: bool
    weight: float = 0.0
    lightest: float = np.inf

    def check(self, model: Model) -> None:
        """Raise an error for a state that is not valid for the model."""
        if not _fits(self.trail, self.phase):
            raise InvalidInputError(f"phase is {self.phase!r} with {len(self.trail)} points before")
        for params in (self.params, *self.trail):
            model.check_params(params)
        self.gathered.check(model, self.params)
        check_count("passes", self.passes)
        check_count("n_degenerate", self.n_degenerate)
        check_above("reach", self.reach, 0.0)
        check_array("gains", np.array(self.gains), (len(self.gains),))
        check_least("the number of gains", len(self.gains), 0, WINDOW + 1)
        check_least("weight", self.weight, 0.0)
        if not self.lightest > 0.0:
            raise InvalidInputError(f"lightest is {self.lightest}: it must be above 0")


@value
class EM(Learner[EMState]):
    """Expectation maximisation over all rows, with optional acceleration.

    s = mean of sbar(x_i; theta) over all rows, theta = maximize(s); the likelihood never decreases.
    With `accelerate`, every third pass evaluates a SQUAREM extrapolation of the last two steps, and
    near the maximum every pass evaluates Anderson's combination of the last six; either is kept
    only if the likelihood has not decreased.

    Use it to compare with the literature, and where a deterministic and monotone fit is wanted.

    Parameters
    ----------
    tol : float, default=0.005
        Learning has converged when less than so many nats of the log-likelihood of all rows are
        left to gain, as estimated from the gains of the last steps. Estimates are then within
        sqrt(2 tol) = 0.1 standard errors of the maximum, however many rows there are. 0 is never.
    max_iter : int, default=1000
        The largest number of passes over the data.
    accelerate : bool, default=False
        Whether to take longer steps.
    criterion : {"remaining", "step"}, default="remaining"
        What `tol` is compared with: the likelihood that is left to gain, or, as in scikit-learn,
        what a step has gained per row.
    prior_strength : float, default=0.0
        How many times a weak prior of covariances, or of products, counts; 0 is maximum likelihood.
        See `Auto`.

    Examples
    --------
    >>> from mixfold import Mixture, datasets
    >>> model = Mixture("gaussian", 2, learner="em", random_state=0)
    >>> sorted(model.fit(datasets.load_faithful()).means_[:, 1].round(1).tolist())
    [54.5, 80.0]

    References
    ----------
    Dempster, Laird and Rubin (1977); Varadhan and Roland (2008) for SQUAREM; Henderson and Varadhan
    (2019) for Anderson acceleration of EM; McLachlan and Krishnan (2008), section 4.9, for
    Aitken's extrapolation of the likelihood.
    """

    assign: ClassVar[Literal["expected", "mode"]] = "expected"
    varied_starts: ClassVar[bool] = False
    serves_noise = True

    tol: float = TOL
    max_iter: int = 1000
    accelerate: bool = False
    criterion: Criterion = "remaining"
    prior_strength: float = 0.0

    def __post_init__(self) -> None:
        check_least("tol", self.tol, 0.0)
        check_least("prior_strength", self.prior_strength, 0.0)
        check_whole("max_iter", self.max_iter, 0)
        if self.criterion not in CRITERIA:
            raise unknown_name("criterion", self.criterion, CRITERIA)

    def resolve(self, n: int | None, d: int, streaming: bool) -> Learner:
        if not streaming:
            return self
        from mixfold.learners.reservoir_em import ReservoirEM  # which uses EM itself

        return ReservoirEM(prior_strength=self.prior_strength)

    def init(self, backend: Backend, params: Params, seen: int = 0, seed: int = 0) -> EMState:
        return EMState(
            params,
            nothing(backend),
            passes=0,
            before=-np.inf,
            converged=False,
            n_degenerate=0,
            phase=PLAIN,
            trail=[],
            reach=FIRST_REACH,
            gains=[],
            refused=False,
        )

    def step(self, backend: Backend, state: EMState, rows: Rows) -> tuple[EMState, list[Info]]:
        gathered = gather(self._fold(backend, state), backend.tile, state.gathered, rows)
        if state.passes:  # all passes are over the same rows
            return replace(state, gathered=gathered), []
        return replace(state, gathered=gathered, lightest=min(state.lightest, rows.lightest())), []

    def _fold(self, backend: Backend, state: EMState) -> Fold:
        return expecting(backend, state.params, Assignment(self.assign))

    def check_state(self, model: Model, state: EMState) -> None:
        check_kind("state", state, EMState)
        state.check(model)

    def flushed(self, backend: Backend, state: EMState) -> EMState:
        return replace(state, gathered=closed(self._fold(backend, state), state.gathered))

    def is_reduction(self, state: EMState) -> bool:
        return True

    def merge(self, backend: Backend, before: EMState, states: Sequence[EMState]) -> EMState:
        """Add the sums of a pass; the order of the states does not matter."""
        check_same_pass(before, states)
        before = self.flushed(backend, before)
        parts = in_order([self.flushed(backend, state).gathered for state in states])
        lightest = min(state.lightest for state in (before, *states))
        return replace(before, gathered=added(before.gathered, parts), lightest=lightest)

    def end_pass(self, backend: Backend, state: EMState) -> tuple[EMState, list[Info]]:
        sums = total(self._fold(backend, state), state.gathered)
        statistics = backend.model.statistics(state.params, sums)
        if not statistics.count > 0:
            return replace(state, gathered=nothing(backend), passes=state.passes + 1), []
        n = max(statistics.count, state.gathered.n)
        likelihood = statistics.log_likelihood / statistics.count
        statistics, log_prior = with_prior(
            backend.model, state.params, statistics, self.prior_strength, state.lightest
        )
        bound = None if log_prior is None else likelihood + log_prior / statistics.count
        info = Info(state.gathered.n, likelihood, 1.0, bound)
        now = likelihood if bound is None else bound
        after, n_degenerate = backend.model.maximize(statistics)
        moved = replace(
            state,
            gathered=nothing(backend),
            passes=state.passes + 1,
            n_degenerate=state.n_degenerate + n_degenerate,
            weight=float(statistics.count),
        )
        if state.phase == EXTRAPOLATED:
            return self._judge(moved, after, now), [info]
        if state.phase == COMBINED:
            return self._judge_combined(backend.model, moved, after, now, n), [info]
        moved = self._gained(moved, now, n)
        if self.accelerate and backend.model.has_coordinates and not moved.converged:
            return self._advance(backend.model, moved, after, n), [info]
        return replace(moved, params=after), [info]

    def _gained(self, state: EMState, now: float, n: float) -> EMState:
        """The state after a plain step over n rows, with a mean log-likelihood of `now`."""
        gains = with_gain(state.gains, (now - state.before) * n)
        converged = has_converged(gains, now * n, n, self.tol, self.criterion)
        return replace(state, before=now, gains=gains, converged=converged)

    def run_passes(
        self, backend: Backend, state: EMState, rows: Rows, most: int | None
    ) -> tuple[EMState, list[Info]] | None:
        """Make plain passes on the backend, until they converge or it returns early."""
        if self.accelerate or self.assign != "expected" or self.prior_strength:
            return None
        fused = backend.capability(FusedPasses)
        made = None if fused is None else fused.run_passes(state.params, rows)
        n = max(rows.total_weight(), len(rows))
        infos: list[Info] = []
        for now in [] if made is None else made.log_likelihood[:most]:
            infos.append(Info(len(rows), float(now), 1.0))
            state = self._gained(replace(state, passes=state.passes + 1), float(now), n)
            if self.finished(state):
                break
        if made is None or not infos:
            return None
        return replace(state, params=made.after(len(infos))), infos

    def _advance(self, model: Model, state: EMState, after: Params, n: float) -> EMState:
        """The state after a plain step: take a second one, or try an extrapolation of two.

        Gains count in units of the lightest row, so that a common factor of weights, and rows that
        are repeated in place of weights, make the same steps.
        """
        if state.phase == PLAIN:
            return replace(state, params=after, phase=SECOND, trail=[state.params])
        first = state.trail[0]
        unit = state.weight / (state.lightest * n)
        near = bool(state.gains) and abs(state.gains[-1]) * unit < NEAR and not state.refused
        if near and pairs_to_keep(model, after):
            return self._combine(model, state, [first, state.params, state.params, after])
        state = replace(state, refused=False)
        far, reach = extrapolate(model, first, state.params, after, state.reach)
        if far is None:
            return replace(state, params=after, phase=PLAIN, trail=[])
        return replace(state, params=far, phase=EXTRAPOLATED, trail=[after], reach=reach)

    def _judge(self, state: EMState, after: Params, now: float) -> EMState:
        """Keep the extrapolated point if it is no worse, else go back and shorten the next one."""
        back = state.trail[0]
        state = replace(state, phase=PLAIN, trail=[])
        if now >= state.before:
            return replace(state, params=after, before=now, reach=4.0 * state.reach)
        return replace(state, params=back, reach=max(0.25 * state.reach, LEAST_REACH))

    def weight_learned(self, state: EMState, rows: int) -> float:
        return state.weight

    def _combine(self, model: Model, state: EMState, trail: list[Params]) -> EMState:
        """Try Anderson's combination of the last steps."""
        trail = trail[-2 * pairs_to_keep(model, trail[-1]) :]
        point = anderson(model, trail)
        if point is None:
            return replace(state, params=trail[-1], phase=PLAIN, trail=[], refused=True)
        return replace(state, params=point, phase=COMBINED, trail=trail)

    def _judge_combined(
        self, model: Model, state: EMState, after: Params, now: float, n: float
    ) -> EMState:
        """Keep a combination that is no worse; convergence is tested after plain steps only."""
        gain = (now - state.before) * n
        if gain < 0.0:
            return replace(state, params=state.trail[-1], phase=PLAIN, trail=[], refused=True)
        trail = [*state.trail, state.params, after]
        state = replace(state, before=now)
        if gain < max(self.tol, ROUNDING * abs(now) * n):
            return replace(state, params=after, phase=PLAIN, trail=[])
        return self._combine(model, state, trail)

    def finished(self, state: EMState) -> bool:
        return state.converged or state.passes >= self.max_iter

    def converged(self, state: EMState) -> bool:
        return state.converged

    def estimate(self, backend: Backend, state: EMState) -> Any:
        if state.phase == COMBINED:
            return state.trail[-2]  # its likelihood is known not to have decreased
        return state.trail[-1] if state.phase == EXTRAPOLATED else state.params


def _fits(trail: list[Params], phase: Phase) -> bool:
    """Whether the number of earlier points matches the phase."""
    if phase == COMBINED:
        return len(trail) % 2 == 0 and 4 <= len(trail) <= 2 * MOST_PAIRS
    return len(trail) == (phase != PLAIN)
