"""Expectation-maximisation over whole passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from mixfold.core.backend_capabilities import FusedPasses
from mixfold.core.checks import check_above, check_count, check_kind, check_least, check_whole
from mixfold.core.errors import InvalidInputError
from mixfold.core.learner import Info, Learner
from mixfold.core.problem import Assignment, Model, Problem
from mixfold.core.rows import Rows
from mixfold.core.value import value
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
from mixfold.learners.online_em import OnlineEM

Phase = Literal["plain", "second", "extrapolated"]
PLAIN: Phase = "plain"
SECOND: Phase = "second"
EXTRAPOLATED: Phase = "extrapolated"
FIRST_REACH, LEAST_REACH = 4.0, 2.0


@value
class EMState:
    """Current parameters, the pass under way, and what acceleration remembers.

    `before` is the mean log-likelihood of the point whose M-step gave `params`; `trail` holds
    the earlier points of an acceleration cycle, and `reach` is how far the next may go. `weight` is
    that of all rows.
    """

    params: Any
    gathered: Gathered
    passes: int
    before: float
    converged: bool
    repairs: int
    phase: Phase
    trail: list[Any]
    reach: float
    weight: float = 0.0

    def check(self, model: Model) -> None:
        """Refuse what no passes over rows of the model can have led to."""
        if len(self.trail) != (self.phase != PLAIN):
            raise InvalidInputError(f"phase is {self.phase!r} with {len(self.trail)} points before")
        for params in (self.params, *self.trail):
            model.check_params(params)
        self.gathered.check(model, self.params)
        check_count("passes", self.passes)
        check_count("repairs", self.repairs)
        check_above("reach", self.reach, 0.0)
        check_least("weight", self.weight, 0.0)


@value
class EM(Learner):
    """s = mean of sbar(x_i; theta) over all rows, theta = maximize(s); never goes down.

    With `accelerate`, every third pass evaluates a SQUAREM extrapolation of the last two steps
    and keeps it only if the likelihood has not fallen. Learning stops when a plain step gains
    less than `tol` nats per row.

    Examples
    --------
    >>> from mixfold import Mixture, datasets
    >>> model = Mixture("gaussian", 2, learner="em", random_state=0)
    >>> sorted(model.fit(datasets.load_faithful()).means_[:, 1].round(1).tolist())
    [54.5, 80.0]

    References
    ----------
    Dempster, Laird and Rubin (1977); Varadhan and Roland (2008) for SQUAREM.
    """

    assign: ClassVar[Literal["expected", "mode"]] = "expected"

    tol: float = 1e-6
    max_iter: int = 200
    accelerate: bool = False

    def __post_init__(self) -> None:
        check_least("tol", self.tol, 0.0)
        check_whole("max_iter", self.max_iter, 0)

    def resolve(self, n: int | None, d: int, streaming: bool) -> Learner:
        return OnlineEM().resolve(n, d, streaming) if streaming else self

    def init(self, problem: Problem, params: Any, seen: int = 0, seed: int = 0) -> EMState:
        return EMState(params, nothing(problem), 0, -np.inf, False, 0, PLAIN, [], FIRST_REACH)

    def step(self, problem: Problem, state: EMState, rows: Rows) -> tuple[EMState, list[Info]]:
        gathered = gather(self._fold(problem, state), problem.tile, state.gathered, rows)
        return _with(state, gathered=gathered), []

    def _fold(self, problem: Problem, state: EMState) -> Fold:
        return expecting(problem, state.params, Assignment(self.assign))

    def check_state(self, model: Model, state: EMState) -> None:
        check_kind("state", state, EMState)
        state.check(model)

    def close(self, problem: Problem, state: EMState) -> EMState:
        return _with(state, gathered=closed(self._fold(problem, state), state.gathered))

    def gathers(self, state: EMState) -> bool:
        return True

    def merge(self, problem: Problem, before: EMState, states: Sequence[EMState]) -> EMState:
        """The sums of a pass over all rows, in no order."""
        check_same_pass(before, states)
        before = self.close(problem, before)
        parts = in_order([self.close(problem, state).gathered for state in states])
        return _with(before, gathered=added(before.gathered, parts))

    def end_pass(self, problem: Problem, state: EMState) -> tuple[EMState, list[Info]]:
        sums = total(self._fold(problem, state), state.gathered)
        statistics = problem.model.statistics(state.params, sums)
        if not statistics.count > 0:
            return _with(state, gathered=nothing(problem), passes=state.passes + 1), []
        now = statistics.log_likelihood / statistics.count
        info = Info(state.gathered.n, now, 1.0)
        after, repairs = problem.model.maximize(statistics)
        moved = _with(
            state,
            gathered=nothing(problem),
            passes=state.passes + 1,
            repairs=state.repairs + repairs,
            weight=float(statistics.count),
        )
        if state.phase == EXTRAPOLATED:
            return self._judge(moved, after, now), [info]
        converged = abs(now - state.before) < self.tol
        moved = _with(moved, before=now, converged=converged)
        if self.accelerate and problem.model.has_coordinates and not converged:
            return self._advance(problem, moved, after), [info]
        return _with(moved, params=after), [info]

    def leap(
        self, problem: Problem, state: EMState, rows: Rows, most: int | None
    ) -> tuple[EMState, list[Info]] | None:
        """Plain passes, until they converge or the engine wants one made by itself."""
        if self.accelerate or self.assign != "expected":
            return None
        fused = problem.capability(FusedPasses)
        made = None if fused is None else fused.run_passes(state.params, rows)
        infos: list[Info] = []
        for now in [] if made is None else made.log_likelihood[:most]:
            infos.append(Info(len(rows), float(now), 1.0))
            converged = abs(now - state.before) < self.tol
            passes = state.passes + 1
            state = _with(state, passes=passes, before=float(now), converged=bool(converged))
            if self.finished(state):
                break
        if made is None or not infos:
            return None
        return _with(state, params=made.after(len(infos))), infos

    def _advance(self, problem: Problem, state: EMState, after: Any) -> EMState:
        """After a plain step: take a second one, or try the extrapolation of two."""
        if state.phase == PLAIN:
            return _with(state, params=after, phase=SECOND, trail=[state.params])
        far, reach = extrapolate(problem, state.trail[0], state.params, after, state.reach)
        if far is None:
            return _with(state, params=after, phase=PLAIN, trail=[])
        return _with(state, params=far, phase=EXTRAPOLATED, trail=[after], reach=reach)

    def _judge(self, state: EMState, after: Any, now: float) -> EMState:
        """Keep the extrapolated point if it is no worse, else go back and dare less."""
        back = state.trail[0]
        state = _with(state, phase=PLAIN, trail=[])
        if now >= state.before:
            return _with(state, params=after, before=now, reach=4.0 * state.reach)
        return _with(state, params=back, reach=max(0.25 * state.reach, LEAST_REACH))

    def weight_learned(self, state: EMState, rows: int) -> float:
        return state.weight

    def finished(self, state: EMState) -> bool:
        return state.converged or state.passes >= self.max_iter

    def converged(self, state: EMState) -> bool:
        return state.converged

    def estimate(self, problem: Problem, state: EMState) -> Any:
        return state.trail[0] if state.phase == EXTRAPOLATED else state.params


def _with(state: EMState, **changes: Any) -> EMState:
    from dataclasses import replace

    return replace(state, **changes)


def extrapolate(
    problem: Problem, zero: Any, one: Any, two: Any, reach: float
) -> tuple[Any | None, float]:
    """SQUAREM's third step length, up to `reach`, in unconstrained coordinates.

    Returns the point, or None where it would not help, and the step length.
    """
    model = problem.model
    units = model.units(zero)
    start = model.unconstrained(zero)
    r = model.unconstrained(one) - start
    v = model.unconstrained(two) - start - 2.0 * r
    lengths = np.linalg.norm(r / units), np.linalg.norm(v / units)
    if not (np.isfinite(lengths).all() and lengths[0] > lengths[1] > 0):
        return None, reach
    alpha = min(float(lengths[0] / lengths[1]), reach)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        far = model.constrained(start + 2.0 * alpha * r + alpha**2 * v, zero)
        return far if _is_valid(model, far) else None, alpha


def _is_valid(model: Model, params: Any) -> bool:
    try:
        model.check_params(params)
    except InvalidInputError:
        return False
    return True
