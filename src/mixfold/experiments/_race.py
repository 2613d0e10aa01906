"""Online Bayesian learners and other methods, on the same rows and initial parameters."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from mixfold.backends.threads import Threads
from mixfold.core.learner import Learner
from mixfold.core.rows import Array, Rows
from mixfold.experiments.templates import gaussian
from mixfold.families.gaussian import Gaussian
from mixfold.fitting.initialization import Initialization
from mixfold.fitting.loop import fit_rows
from mixfold.initializers.k_means_plus_plus import KMeansPlusPlus
from mixfold.learners.auto import Auto
from mixfold.learners.moment_matching import MomentMatching
from mixfold.learners.online_em import OnlineEM
from mixfold.learners.online_vb import OnlineVB
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.schedules.power import Power

SHARDS = 5
# rows that a start is drawn from, at most
SAMPLE = 2_000
# of the column's variance: ties in real data would let a likelihood grow without end
FLOOR = 1e-3
OBMM, ODMM, SCIKIT = "oBMM", "oDMM", "scikit-learn"

Work = TypeVar("Work")


@dataclass(frozen=True)
class Race:
    """Rows in random order, and the start of all methods; one thread."""

    backend: Threads
    rows: Rows
    start: MixtureParams

    @classmethod
    def begin(cls, x: Array, k: int, seed: int, candidates: int = 1) -> Race:
        """k-means++ on a sample; of several candidates the best after EM on the sample."""
        backend = Threads(MixtureModel(Gaussian(floor=FLOOR), k, x.shape[1]), 1)
        initialization = Initialization((KMeansPlusPlus(),), candidates)
        return cls(backend, Rows(x), initialization.draw(backend, Rows(x[:SAMPLE]), [seed, k]))

    def held_out(self, params: MixtureParams, judged: Array) -> float:
        """Log-likelihood per row, with the variance floor that not all methods have."""
        model = self.backend.model
        floored = model.maximize(model.expected(params))[0]
        return float(self.backend.posterior(floored, Rows(judged), False)[0].mean())


# parameters, and seconds of CPU time
Learned = tuple[MixtureParams, float]
Method = Callable[[Race], Learned]


def methods() -> dict[str, Method]:
    """The methods of one pass, and for reference two with several passes."""
    return {**one_pass(), "auto": single(Auto()), SCIKIT: scikit}


def one_pass() -> dict[str, Method]:
    """The paper's four, two of them in two forms."""
    return {
        "oVB stochastic": single(OnlineVB()),
        "oVB streaming": single(OnlineVB(form="streaming")),
        "oEM 0.6": single(OnlineEM(schedule=Power(0.6))),
        "oEM 0.8": single(OnlineEM(schedule=Power(0.8))),
        OBMM: single(MomentMatching()),
        ODMM: distributed(0.0),
    }


def clocked(work: Callable[[], Work]) -> tuple[Work, float]:
    """The result of a function, and its CPU time in seconds."""
    began = time.process_time()
    done = work()
    return done, time.process_time() - began


def single(learner: Learner) -> Method:
    """One learner on all rows, with its default number of passes."""

    def run(race: Race) -> Learned:
        return clocked(lambda: _to_the_end(learner, race))

    return run


def _to_the_end(learner: Learner, race: Race) -> MixtureParams:
    backend, model = race.backend, race.backend.model
    resolved = learner.resolve(len(race.rows), model.d, False)
    sample = min(SAMPLE, len(race.rows))
    prior_count = resolved.prior_count(sample, model.k, model.d)
    state = fit_rows(backend, resolved, race.start, race.rows, prior_count).state
    params: MixtureParams = resolved.estimate(backend, state)
    return params


def distributed(common: float) -> Method:
    """Moment matching on shards, after a fraction of the rows that one learner reads for all.

    Time is that of this beginning, the slowest shard and the merge.
    """

    def run(race: Race) -> Learned:
        backend, resolved, n = race.backend, MomentMatching(), len(race.rows)

        def read(state: Any, a: int, b: int) -> tuple[Any, float]:
            return clocked(lambda: resolved.step(backend, state, race.rows.cut(a, b))[0])

        ends = [int(end) for end in np.linspace(round(common * n), n, SHARDS + 1)]
        before, begun = read(resolved.init(backend, race.start), 0, ends[0])
        shards = [read(before, a, b) for a, b in pairwise(ends)]
        merged, merging = clocked(lambda: resolved.merge(backend, before, [s for s, _ in shards]))
        seconds = begun + max(spent for _, spent in shards) + merging
        return resolved.estimate(backend, merged), seconds

    return run


def scikit(race: Race) -> Learned:
    """scikit-learn's batch EM with its defaults; ValueError if it fails."""
    from sklearn.mixture import GaussianMixture

    components = race.start.components
    roots = race.backend.model.family.whiten(components)
    precisions = roots.swapaxes(1, 2) @ roots
    batch = GaussianMixture(
        race.backend.model.k,
        weights_init=race.start.weights,
        means_init=race.backend.model.family.to_arrays(components)[0],
        precisions_init=0.5 * (precisions + precisions.swapaxes(1, 2)),
        init_params="random_from_data",
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it may stop before it converges
        _, seconds = clocked(lambda: batch.fit(race.rows.x))
    return gaussian(batch.weights_, batch.means_, batch.covariances_).params, seconds
