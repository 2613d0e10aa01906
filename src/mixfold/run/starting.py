"""Choosing where to start, on a bounded sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.core.errors import InvalidInputError, warn
from mixfold.core.family import Family
from mixfold.core.learner import Learner
from mixfold.core.problem import Model
from mixfold.core.registry import find
from mixfold.core.rows import Rows
from mixfold.core.start import Start
from mixfold.core.value import at_home, value
from mixfold.engines.threads import Threads
from mixfold.learners.em import EM
from mixfold.models.mixture_model import MixtureParams, n_degenerate
from mixfold.run.component_order import component_order, ranked, reorder
from mixfold.starts._given import Given

SHORT = EM(tol=1e-4, max_passes=8, accelerate=True, criterion="step")
LONG = EM(tol=1e-5, max_passes=60, accelerate=True, criterion="step")
FINALISTS = 3


def start_for(init: Any, family: Family, suits: str | None = None) -> Start:
    """The start a user has named, or given; "auto" is the one that suits the learner."""
    if isinstance(init, Start):
        return init
    if isinstance(init, str):
        if init == "auto" and suits is not None:
            init = suits
        if init == "auto":
            init = "k-mle++" if family.scatter == "none" else "k-means++"
        start: Start = find("starts", init)()
        return start
    if hasattr(init, "fit") and not hasattr(init, "params_"):
        raise InvalidInputError(f"init is {init!r}, which is not fitted: call its fit first")
    return Given(getattr(init, "params_", init))


def check_served(learner: Learner, model: Model) -> None:
    """Refuse a model that the learner cannot learn."""
    why = learner.refusal(model)
    if why is not None:
        raise InvalidInputError(why)


def warn_of(learner: Learner, model: Model, sample: Rows) -> None:
    """Say what the learner has to remark before it begins."""
    for remark in learner.remarks(model, sample.on_host()):
        warn(remark)


@value
class Beginning:
    """How parameters are first drawn.

    Several candidates are learned for a few passes over the sample, the best of them to the end.
    Parameters that are drawn, not given, are put into order where the learner is `exchangeable`.
    """

    start: Start
    candidates: int = 1
    exchangeable: bool = True

    @property
    def given(self) -> MixtureParams | None:
        """Whole parameters, where the user has given them."""
        params = self.start.params if isinstance(self.start, Given) else None
        return params if isinstance(params, MixtureParams) else None

    @property
    def random(self) -> bool:
        """Whether two draws can differ."""
        return self.start.random

    def draw(self, problem: Threads, sample: Rows, seed: list[int]) -> MixtureParams:
        """Parameters from a sample; the same for the same seed and sample."""
        if not self.random:
            return self._one(problem, sample, seed)
        if self.candidates == 1:
            best = self._one(problem, sample, seed)
        else:
            best = self._best(problem, sample, seed)
        best = at_home(best)
        return reorder(best, component_order(problem.model, best)) if self.exchangeable else best

    def _best(self, problem: Threads, sample: Rows, seed: list[int]) -> MixtureParams:
        drawn = [self._one(problem, sample, [*seed, i]) for i in range(self.candidates)]
        tried = [learn(SHORT, problem, params, sample) for params in drawn]
        chosen = sorted(_best_first(problem, tried)[:FINALISTS])
        ended = [learn(LONG, problem, tried[i][0], sample) for i in chosen]
        best: MixtureParams = ended[_best_first(problem, ended)[0]][0]
        return best

    def _one(self, problem: Threads, sample: Rows, seed: list[int]) -> MixtureParams:
        rng = np.random.default_rng(seed)
        params: MixtureParams = self.start.draw(problem.model, sample.on_host(), rng)
        return params


def _best_first(problem: Threads, found: list[tuple[Any, float]]) -> list[int]:
    """Numbers of parameters by score, those with the fewest degenerate components first.

    The likelihood of a component that shrinks onto a few rows has no bound, so it says nothing.
    """
    order = ranked([score for _, score in found])
    return sorted(order, key=lambda i: n_degenerate(problem.model, found[i][0]))


def learn(rule: EM, problem: Threads, params: Any, sample: Rows) -> tuple[Any, float]:
    """EM on rows in memory: parameters and their log-likelihood per row."""
    state = rule.init(problem, params)
    while not rule.finished(state):
        state, _ = rule.step(problem, state, sample)
        state, _ = rule.end_pass(problem, state)
    return rule.estimate(problem, state), state.before
