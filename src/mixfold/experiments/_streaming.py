"""Learners on one stream with the same initial parameters, evaluated along the way."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mixfold.backends.threads import Threads
from mixfold.core.learner import Learner
from mixfold.core.rows import Rows
from mixfold.fitting.loop import fit_rows
from mixfold.initializers.k_mle_plus_plus import KMlePlusPlus
from mixfold.learners.em import EM
from mixfold.learners.k_mle import KMLE
from mixfold.learners.online_em import OnlineEM
from mixfold.learners.online_k_mle import STRATEGIES, OnlineKMLE
from mixfold.learners.recursive_em import RecursiveEM
from mixfold.models.mixture_model import MixtureParams
from mixfold.schedules.power import Power

# the rows the start is drawn from; they count as seen
FIRST = 100
SLOW, HARMONIC = "n^-0.6", "1/n"
SCHEDULES = {SLOW: Power(0.6), HARMONIC: Power(exponent=1.0, scale=1.0)}

# until convergence, since the optima are compared, not the progress after ten passes
BATCH = {
    "EM": EM(tol=1e-10, max_iter=500, accelerate=True),
    "k-MLE": KMLE(tol=1e-12, max_iter=500),
}


def online_learners(schedule: Power) -> dict[str, Learner]:
    """One update per row, all with the same step sizes."""
    strategies = {
        f"online k-MLE {s}": OnlineKMLE(strategy=s, schedule=schedule) for s in STRATEGIES
    }
    return {
        "online EM": OnlineEM(schedule=schedule),
        "recursive EM": RecursiveEM(schedule=schedule),
        **strategies,
    }


@dataclass(frozen=True)
class Stream:
    """Rows in the order they come, and the start that the first of them gave."""

    backend: Threads
    rows: Rows
    start: MixtureParams
    seed: int

    @classmethod
    def begin(cls, backend: Threads, rows: Rows, rng: np.random.Generator, seed: int) -> Stream:
        """k-MLE++ and k-MLE on the first rows, as the slides start."""
        first = rows.cut(0, FIRST)
        drawn = KMlePlusPlus().draw(backend.model, first, rng)
        batch = BATCH["k-MLE"]
        start = batch.estimate(backend, fit_rows(backend, batch, drawn, first).state)
        return cls(backend, rows, start, seed)

    def online(self, learner: Learner, marks: Sequence[int]) -> Iterator[MixtureParams]:
        """The parameters of an online learner after given numbers of rows."""
        resolved = learner.resolve(None, self.backend.model.d, True)
        state, before = resolved.init(self.backend, self.start, FIRST, self.seed), FIRST
        for now in marks:
            state, _ = resolved.step(self.backend, state, self.rows.cut(before, now))
            before = now
            yield resolved.estimate(self.backend, state)

    def batch(self, learner: EM, marks: Sequence[int]) -> Iterator[MixtureParams]:
        """The parameters of batch methods on all rows so far."""
        for now in marks:
            fit = fit_rows(self.backend, learner, self.start, self.rows.cut(0, now))
            yield learner.estimate(self.backend, fit.state)

    def seconds_per_update(self, rounds: int) -> dict[str, float]:
        """Least CPU time of each online learner for a row, and of k-MLE to learn all rows again."""
        marks, best = [len(self.rows)], dict[str, float]()
        # in turns, so that other load on the machine affects all methods alike
        for _ in range(rounds):
            for name, learner in online_learners(SCHEDULES[SLOW]).items():
                spent = _cpu_seconds(self.online(learner, marks)) / (len(self.rows) - FIRST)
                best[name] = min(spent, best.get(name, np.inf))
        best["k-MLE again"] = _cpu_seconds(self.batch(BATCH["k-MLE"], marks))
        return best


def _cpu_seconds(work: Iterator[MixtureParams]) -> float:
    began = time.process_time()
    for _ in work:
        pass
    return time.process_time() - began


def log_spaced(n: int, per_decade: int = 4) -> list[int]:
    """Numbers of rows from twice the start's up to n, evenly on a logarithmic scale."""
    low, high = np.log10(2 * FIRST), np.log10(n)
    steps = max(2, int(np.ceil((high - low) * per_decade)) + 1)
    return [int(m) for m in np.unique(np.round(np.logspace(low, high, steps)))]
