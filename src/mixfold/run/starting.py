"""Choosing where to start, on a bounded sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.core.family import Family
from mixfold.core.registry import find
from mixfold.core.rows import Rows
from mixfold.core.start import Start
from mixfold.core.value import value
from mixfold.engines.threads import Threads
from mixfold.learners.em import EM
from mixfold.models.mixture_model import MixtureParams
from mixfold.starts._given import Given

TRIAL = EM(tol=1e-4, max_passes=60, accelerate=True)


def start_for(init: Any, family: Family) -> Start:
    """The start a user has named, or given."""
    if isinstance(init, Start):
        return init
    if isinstance(init, str):
        if init == "auto":
            init = "k-mle++" if family.scatter == "none" else "k-means++"
        start: Start = find("starts", init)()
        return start
    return Given(getattr(init, "params_", init))


@value
class Beginning:
    """How parameters are first drawn: the best of several candidates after a short EM."""

    start: Start
    candidates: int = 1

    @property
    def random(self) -> bool:
        """Whether two draws can differ."""
        return self.start.random

    def draw(self, problem: Threads, sample: Rows, seed: list[int]) -> MixtureParams:
        """Parameters from a sample; the same for the same seed and sample."""
        candidates = self.candidates if self.random else 1
        if candidates == 1:
            return self._one(problem, sample, seed)
        drawn = (self._one(problem, sample, [*seed, i]) for i in range(candidates))
        tried = [learn_sample(problem, params, sample) for params in drawn]
        best: MixtureParams = max(tried, key=lambda pair: pair[1])[0]
        return best

    def _one(self, problem: Threads, sample: Rows, seed: list[int]) -> MixtureParams:
        rng = np.random.default_rng(seed)
        params: MixtureParams = self.start.draw(problem.model, sample, rng)
        return params


def learn_sample(problem: Threads, params: Any, sample: Rows) -> tuple[Any, float]:
    """EM on rows in memory: parameters and their log-likelihood per row."""
    state = TRIAL.init(problem, params)
    reached = -np.inf
    while not TRIAL.finished(state):
        state, _ = TRIAL.step(problem, state, sample)
        state, infos = TRIAL.end_pass(problem, state)
        reached = state.before
        if not infos:
            break
    return TRIAL.estimate(problem, state), reached
