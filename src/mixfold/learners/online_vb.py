"""Online variational Bayes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from mixfold.core.backend import Backend, Model
from mixfold.core.checks import check_count, check_kind, check_whole
from mixfold.core.conjugate import Prior
from mixfold.core.errors import InvalidInputError, unknown_name
from mixfold.core.learner import Info, Learner
from mixfold.core.params import Params
from mixfold.core.registry import make_fields
from mixfold.core.rows import Rows
from mixfold.core.schedule import Schedule
from mixfold.core.statistics import Statistics
from mixfold.core.value import replace, value
from mixfold.learners._batches import learn_in_batches
from mixfold.learners._gathering import Fold, Gathered, expecting, gather, nothing, total
from mixfold.learners._merging import (
    counted,
    counting,
    join_statistics,
    joined_counts,
    learned_more,
    more,
    weighted,
)
from mixfold.learners._prior import (
    bayesian,
    check_posteriors,
    check_prior,
    mixture_of,
    no_prior,
    prior_of,
    same_for_all,
)
from mixfold.learners._scores import first_information, with_scores
from mixfold.learners._sparse import MOST_REPEATS, has_settled, sparse_prior
from mixfold.learners._steps import RowCounts, batch_step
from mixfold.models.bayesian_mixture import BayesianMixture, MixturePosterior
from mixfold.models.mixture_model import MixtureParams
from mixfold.models.score_information import Path, ScoreInformation, merged_information
from mixfold.schedules.power import Power

FORMS = ("stochastic", "streaming")
ROWS, SPARSE_ROWS = 256, 1000  # per update


@value
class OnlineVBState:
    """The prior, the posterior (`params`), and the current batch.

    `statistics` are those of the rows learned, averaged by the stochastic form and, if `sparse`,
    summed by the other; None before the first. `learned` holds the counts that step sizes depend
    on; its rows include buffered ones, its weight does not.
    """

    prior: MixturePosterior
    params: MixturePosterior
    statistics: Statistics | None
    gathered: Gathered
    learned: RowCounts
    rows: int
    updates: int
    passes: int
    n_degenerate: int
    information: ScoreInformation | None

    def check(self, model: Model) -> None:
        """Raise an error for a state that is not valid for the model."""
        check_posteriors(model, self.prior, self.params)
        posterior = bayesian(model)
        self.gathered.check(model, posterior.expected_log_params(self.params))
        self.learned.check()
        if self.statistics is not None:
            model.check_statistics(self.statistics)
            with np.errstate(all="ignore"):  # the variances may be negative
                scaled = self.statistics.normalized() * max(1.0, self.learned.weight)
                after = posterior.absorb(self.prior, scaled)
            check_posteriors(model, after)
        if self.information is not None:
            self.information.check(model)
        for name in ("rows", "updates", "passes", "n_degenerate"):
            check_count(name, getattr(self, name))


@value
class OnlineVB(Learner[OnlineVBState]):
    """Online variational Bayes: a posterior distribution from batches.

    phi <- (1 - rho_t) phi + rho_t (prior + N mean of sbar), or phi <- phi + sum of sbar, where the
    responsibilities are computed from E[log p(x, k)]. Use it where rows can be read more than once,
    or come in batches.

    Parameters
    ----------
    form : {"stochastic", "streaming"}, default="stochastic"
        "stochastic" takes steps towards the posterior of `n_rows` rows; in the "streaming" form
        each posterior is the prior of the next batch.
    batch_size : int or None, default=None
        Rows per update; None is 256, or 1,000 if `sparse`.
    schedule : schedule, default=Power(0.6, delay=1)
        The step size of every update, such as `Power(0.6)` or `Constant(0.01)`.
    max_iter : int, default=1
        The largest number of passes over the data.
    n_rows : int or None, default=None
        The number of rows of the whole data; None is the number of rows, or of those learned so far
        in a stream.
    prior : Prior, posterior or None, default=None
        A `Prior`, or the `posterior_` of a model; None is a vague prior about the initial
        parameters.
    sparse : bool, default=False
        Whether components that are not needed become empty. The prior is then the same for all
        components and about all rows, by default `Prior(alpha=1 / K, kappa=0.1)`; the rows
        of a batch are kept, and their responsibilities are computed until they no longer change.

    Examples
    --------
    >>> from mixfold import Mixture, datasets
    >>> model = Mixture("gaussian", 2, learner="online-vb", random_state=0)
    >>> sorted(model.fit(datasets.load_faithful()).means_[:, 1].round(0).tolist())
    [54.0, 80.0]

    References
    ----------
    Hoffman, Blei, Wang and Paisley (2013), Stochastic variational inference; Broderick, Boyd,
    Wibisono, Wilson and Jordan (2013), Streaming variational Bayes.
    """

    supports_warm_start = True
    adds_levels = False  # it has no prior for them
    starts = 4
    sample_size = 2_000

    form: Literal["stochastic", "streaming"] = "stochastic"
    batch_size: int | None = None
    schedule: Schedule = Power(exponent=0.6, scale=1.0, delay=1.0)
    max_iter: int = 1
    n_rows: int | None = None
    prior: Prior | MixturePosterior | None = None
    sparse: bool = False

    def __post_init__(self) -> None:
        make_fields(self, "schedule")
        if self.form not in FORMS:
            raise unknown_name("form", self.form, FORMS)
        if self.batch_size is not None:
            check_whole("batch_size", self.batch_size)
        check_whole("max_iter", self.max_iter)
        if self.n_rows is not None:
            check_whole("n_rows", self.n_rows)
        check_prior(self.prior)
        if self.form == "streaming" and self.max_iter > 1:
            raise InvalidInputError(
                f"max_iter is {self.max_iter}: the streaming form adds every row it sees, and "
                "would count rows more than once; use form='stochastic'"
            )

    def resolve(self, n: int | None, d: int, streaming: bool) -> Learner:
        return self if self.n_rows is not None else replace(self, n_rows=n)

    @property
    def exchangeable(self) -> bool:  # type: ignore[override]
        """Whether the prior is the same for every component."""
        return same_for_all(self.prior)

    def why_unsupported(self, model: Model) -> str | None:
        return no_prior(model)

    @property
    def _rows_per_update(self) -> int:
        if self.batch_size is not None:
            return self.batch_size
        return SPARSE_ROWS if self.sparse else ROWS

    def prior_count(self, sample: int, k: int, d: int) -> int:
        return sample

    def init(self, backend: Backend, params: Params, seen: int = 0, seed: int = 0) -> OnlineVBState:
        prior, first = self._first(backend, params)
        information = first_information(backend, first, seen)
        counts = RowCounts(0.0), 0, 0, 0, 0
        return OnlineVBState(prior, first, None, nothing(backend), *counts, information)

    def _first(self, backend: Backend, params: Params) -> tuple[MixturePosterior, MixturePosterior]:
        """The prior, and the posterior under which the first rows are evaluated."""
        if self.sparse and not isinstance(self.prior, MixturePosterior):
            return sparse_prior(mixture_of(backend), params, self.prior)
        prior = prior_of(backend, params, self.prior)
        return prior, prior

    def check_state(self, model: Model, state: OnlineVBState) -> None:
        check_kind("state", state, OnlineVBState)
        state.check(model)

    def step(
        self, backend: Backend, state: OnlineVBState, rows: Rows
    ) -> tuple[OnlineVBState, list[Info]]:
        return learn_in_batches(
            backend, state, rows, lambda _: self._rows_per_update, self._gathering, self._update
        )

    def _gathering(self, backend: Backend, state: OnlineVBState, rows: Rows) -> OnlineVBState:
        tile = (
            self._rows_per_update + 1 if self.sparse else backend.tile
        )  # all rows of a batch are kept
        gathered = gather(self._fold(backend, state), tile, state.gathered, rows)
        state = with_scores(backend, state, rows)
        return replace(state, gathered=gathered, learned=state.learned.with_rows(rows))

    def _fold(self, backend: Backend, state: OnlineVBState) -> Fold:
        return expecting(backend, mixture_of(backend).expected_log_params(state.params))

    def _expected(self, backend: Backend, state: OnlineVBState, gathered: Gathered) -> Statistics:
        """The statistics of the rows of a batch."""
        params = mixture_of(backend).expected_log_params(state.params)
        found: Statistics = backend.model.statistics(
            params, total(self._fold(backend, state), gathered)
        )
        return found

    def _update(self, backend: Backend, state: OnlineVBState) -> tuple[OnlineVBState, list[Info]]:
        gathered, n = state.gathered, state.gathered.n
        batch = self._expected(backend, state, gathered)
        state = replace(state, gathered=nothing(backend), rows=state.rows + n)
        if not batch.count > 0:
            return state, []
        weight = float(batch.count)
        rho = 1.0
        if self.form == "stochastic":
            rho = batch_step(self.schedule, state.learned, weight, self._rows_per_update)
        learned = state.learned.with_weight(weight)
        state = replace(state, learned=learned, updates=state.updates + 1)
        after = self._moved(backend, state, batch, rho)
        for _ in range(MOST_REPEATS if self.sparse else 0):
            before = after.params.alpha
            batch_again = self._expected(backend, after, gathered)
            after = self._moved(backend, state, batch_again, rho)
            if has_settled(before, after.params.alpha, state.prior.alpha):
                break
        return after, [Info(n, batch.log_likelihood / weight, rho)]

    def _moved(
        self, backend: Backend, state: OnlineVBState, batch: Statistics, rho: float
    ) -> OnlineVBState:
        """The state after a batch with these statistics."""
        mixture = mixture_of(backend)
        if self.form == "streaming" and not self.sparse:
            return replace(state, params=mixture.absorb(state.params, batch))
        if self.form == "streaming":
            statistics = batch if state.statistics is None else state.statistics + batch
            return self._summed(mixture, state, statistics)
        batch = batch.normalized()
        # the prior is not a row: before the first batch there are no statistics to average
        statistics = batch * rho if state.statistics is None else state.statistics.mix(batch, rho)
        return self._absorbed(mixture, state, statistics)

    def _summed(
        self, mixture: BayesianMixture, state: OnlineVBState, statistics: Statistics
    ) -> OnlineVBState:
        """The state with the posterior for rows with these statistics."""
        posterior = mixture.absorb(state.prior, statistics)
        return replace(state, params=posterior, statistics=statistics)

    def _absorbed(
        self, mixture: BayesianMixture, state: OnlineVBState, statistics: Statistics
    ) -> OnlineVBState:
        """The state with the posterior for all rows, if future rows have these statistics too."""
        share = 1.0 if self.n_rows is None else self.n_rows / state.rows
        if self.sparse:  # rows not yet read would slow down how components become empty
            share = min(1.0, share)
        everything = statistics.normalized() * (state.learned.weight * share)
        posterior = mixture.absorb(state.prior, everything)
        return replace(state, params=posterior, statistics=statistics)

    def flushed(self, backend: Backend, state: OnlineVBState) -> OnlineVBState:
        return self.flush(backend, state)[0]

    def flush(self, backend: Backend, state: OnlineVBState) -> tuple[OnlineVBState, list[Info]]:
        return self._update(backend, state) if state.gathered.n else (state, [])

    def end_pass(self, backend: Backend, state: OnlineVBState) -> tuple[OnlineVBState, list[Info]]:
        state, infos = self.flush(backend, state)
        return replace(state, passes=state.passes + 1), infos

    def finished(self, state: OnlineVBState) -> bool:
        return state.passes >= self.max_iter

    def compact(self, state: OnlineVBState) -> OnlineVBState:
        """The state for more rows, each of which counts as one of those learned."""
        if not state.passes:
            return state
        passes, learned = state.passes, state.learned
        learned = RowCounts(0.0, learned.rows // passes, learned.weight / passes, after_fit=True)
        return replace(state, learned=learned, rows=state.rows // passes, passes=0)

    def estimate(self, backend: Backend, state: OnlineVBState) -> MixtureParams:
        return mixture_of(backend).expected(state.params)

    def path(
        self, state: OnlineVBState, counts: Mapping[str, float]
    ) -> tuple[Path, dict[str, float]]:
        """How the estimate was reached, and variances of the posterior for known components.

        These are named as the intervals are; the posterior forgets no rows.
        """
        assert state.information is not None
        weight = float((state.params.alpha - state.prior.alpha).sum())
        rows = max(1.0, weight / state.information.mean_weight)
        streaming = self.form == "streaming"
        found = Path(
            float(state.information.start),
            state.updates,
            state.rows / max(1, state.updates),
            lambda t: 1.0 / t if streaming else min(1.0, float(self.schedule([t])[0])),
            rows,
        )
        return found, dict.fromkeys(counts, 1.0)

    def merge(
        self, backend: Backend, before: OnlineVBState, states: Sequence[OnlineVBState]
    ) -> OnlineVBState:
        """Multiply the posteriors and divide out the prior, or average the statistics.

        The latter is for the stochastic form, in which every posterior is already that of all rows.
        """
        before = self.flushed(backend, before)  # its buffered rows are in every state
        states = learned_more(self, backend, before, states)
        if len(states) < 2:
            return states[0] if states else before
        merged = replace(
            before,
            learned=joined_counts(before.learned, [s.learned for s in states]),
            information=merged_information(before.information, [s.information for s in states]),
            passes=max(s.passes for s in states),
            **counted(before, states, "rows", "updates", "n_degenerate"),
        )
        states = [s for s in states if s.learned.weight > before.learned.weight]
        if not states:
            return merged
        mixture = mixture_of(backend)
        if self.form == "streaming" and self.sparse:
            return self._summed(mixture, merged, self._sum(backend, before, states))
        if self.form == "streaming":
            return replace(
                merged, params=mixture.combine(before.params, [s.params for s in states])
            )
        return self._absorbed(mixture, merged, self._joined(backend, before, states))

    def _sum(
        self, backend: Backend, before: OnlineVBState, states: Sequence[OnlineVBState]
    ) -> Statistics:
        """The sum of the statistics of all states, in which those of `before` count once."""
        params = mixture_of(backend).expected(before.params)
        known = [backend.model.sums(params, s.statistics) for s in states]
        if before.statistics is not None:
            once = backend.model.sums(params, before.statistics)
            known = [known[0], *(sums - once for sums in known[1:])]
        found: Statistics = backend.model.statistics(params, np.sum(known, axis=0))
        return found

    def _joined(
        self, backend: Backend, before: OnlineVBState, states: Sequence[OnlineVBState]
    ) -> Statistics:
        """Statistics of the rows of all states."""
        several = [s.statistics.normalized() for s in states if s.statistics is not None]
        learned = [s.learned for s in states]
        if before.statistics is None:
            weights = more("weight", before.learned, learned)
            return weighted(Statistics.mix, several, weights)
        known = mixture_of(backend).expected(before.params), before.statistics.normalized()
        counts = counting(self.schedule, self._rows_per_update, before.learned, learned)
        return join_statistics(backend.model, known, several, counts)[0]
