"""The learners that studies compare, all from one start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mixfold.backends.threads import Threads
from mixfold.core.learner import Learner
from mixfold.core.source import Source
from mixfold.fitting.fit import Fit
from mixfold.fitting.loop import Loop
from mixfold.fitting.plan import FitPlan, GivenParams
from mixfold.learners.em import EM
from mixfold.learners.mini_batch_em import MiniBatchEM
from mixfold.models.assignment import statistics_of
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.schedules.power import Power

EPOCHS = 10
# the paper's text says n/5 and n/10, its code ran n/50 and n/100
PARTS = (5, 10, 50, 100)

TEN_PASSES = EM(tol=0.0, max_iter=EPOCHS)
# components that start alike part slowly: a coarse tolerance would take that for convergence
CONVERGED = EM(tol=1e-10, max_iter=300, accelerate=True)

Outcome = tuple[str, MixtureParams, Fit]


def mini_batch(batch_size: int) -> MiniBatchEM:
    """Mini-batch EM as in the paper; the Polyak average is kept beside the last iterate."""
    return MiniBatchEM(
        batch_size=max(1, batch_size),
        sampling="with-replacement",
        schedule=Power(0.6),
        max_iter=EPOCHS,
        average_from=1,
    )


def random_labels(model: MixtureModel, source: Source, rng: np.random.Generator) -> MixtureParams:
    """One M-step on labels drawn uniformly (McLachlan and Peel 2000, 3.9.3), over all rows."""
    total = None
    for rows in source.blocks():
        labels = rng.integers(model.k, size=len(rows))
        part = statistics_of(model, rows, np.eye(model.k)[labels])
        total = part if total is None else total + part
    assert total is not None
    return model.maximize(total)[0]


class Contest:
    """Learners on the same rows, from the same start, with the same random numbers."""

    def __init__(self, backend: Threads, source: Source, start: MixtureParams, seed: int) -> None:
        self.backend, self.source, self.start, self.seed = backend, source, start, seed

    def learn(self, learner: Learner) -> Fit:
        """Learn from the start; `seconds` of the result is learning alone."""
        starts = GivenParams(self.start)
        return Loop(FitPlan(self.backend, learner, self.source, starts, seed=self.seed)).run()

    def em(self, name: str, learner: EM) -> Outcome:
        """Whole passes over the data."""
        fit = self.learn(learner)
        return name, learner.estimate(self.backend, fit.state), fit

    def mini_batches(self, part: int) -> Iterator[Outcome]:
        """Batches of n / part rows: the last iterate, and the average under a P."""
        learner = self._learner(part)
        yield from self._both(part, "", self.learn(learner))

    def truncated_too(self, part: int) -> Iterator[Outcome]:
        """The same without and with truncation, which a T marks."""
        learner = replace(self._learner(part), truncation=1000.0)
        truncated = self.learn(learner)
        # a truncation that never happens leaves every bit as it was: no need to learn again
        if truncated.state.truncations:
            yield from self.mini_batches(part)
        else:
            yield from self._both(part, "", truncated)
        yield from self._both(part, "T", truncated)

    def _learner(self, part: int) -> MiniBatchEM:
        assert self.source.length is not None
        return mini_batch(self.source.length // part)

    def _both(self, part: int, mark: str, fit: Fit) -> Iterator[Outcome]:
        yield f"n/{part} {mark}".rstrip(), fit.state.params, fit
        yield f"n/{part} P{mark}", fit.state.average, fit
