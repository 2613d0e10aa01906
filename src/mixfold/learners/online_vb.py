"""Online variational Bayes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from mixfold.core.checks import check_count, check_kind, check_least, check_whole
from mixfold.core.conjugate import Prior
from mixfold.core.errors import InvalidInputError, unknown_name
from mixfold.core.learner import Info, Learner
from mixfold.core.problem import Model, Problem
from mixfold.core.registry import make_fields
from mixfold.core.rows import Rows
from mixfold.core.schedule import Schedule
from mixfold.core.statistics import Statistics
from mixfold.core.value import value
from mixfold.learners._batches import learn_in_batches, step_of
from mixfold.learners._beliefs import (
    beliefs_before,
    check_beliefs,
    check_prior,
    mixture_of,
    no_prior,
    same_for_all,
)
from mixfold.learners._gathering import Fold, Gathered, expecting, gather, nothing, total
from mixfold.learners._merging import counted, learned_more
from mixfold.models.bayesian_mixture import BayesianMixture, MixturePosterior
from mixfold.schedules.power import Power

FORMS = ("stochastic", "streaming")


@value
class OnlineVBState:
    """Beliefs before any row and now (`params`), and the batch under way.

    `statistics` are those of one row on average, as the stochastic form sees them; `weight` is that
    of the rows learned.
    """

    prior: MixturePosterior
    params: MixturePosterior
    statistics: Statistics
    gathered: Gathered
    rows: int
    weight: float
    updates: int
    passes: int
    repairs: int

    def check(self, model: Model) -> None:
        """Refuse what no rows of the model can have led to."""
        check_beliefs(model, self.prior, self.params)
        beliefs = BayesianMixture(model)  # type: ignore[arg-type]
        model.check_statistics(self.statistics)
        self.gathered.check(model, beliefs.surrogate(self.params))
        check_least("weight", self.weight, 0.0)
        with np.errstate(all="ignore"):  # of variances that are negative
            after = beliefs.absorb(self.prior, self.statistics * max(1.0, self.weight))
        check_beliefs(model, after)
        for name in ("rows", "updates", "passes", "repairs"):
            check_count(name, getattr(self, name))


@value
class OnlineVB(Learner):
    """phi <- (1 - rho_t) phi + rho_t (prior + N mean of sbar), or phi <- phi + sum of sbar.

    Statistics sbar of a batch are expected under E[log p(x, k)]. The "stochastic" form (stochastic
    variational inference) follows `schedule` towards the posterior of `n_rows` rows: as many as the
    source has, or as came so far. In the "streaming" form each posterior is the next prior.

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

    goes_on = True
    starts = 4
    sample_size = 2_000

    form: Literal["stochastic", "streaming"] = "stochastic"
    batch_size: int = 256
    schedule: Schedule = Power(exponent=0.6, scale=1.0, delay=1.0)
    max_iter: int = 1
    n_rows: int | None = None
    prior: Prior | MixturePosterior | None = None

    def __post_init__(self) -> None:
        make_fields(self, "schedule")
        if self.form not in FORMS:
            raise unknown_name("form", self.form, FORMS)
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
        """Whether the prior leaves open which component is which."""
        return same_for_all(self.prior)

    def refusal(self, model: Model) -> str | None:
        return no_prior(model)

    def init(self, problem: Problem, params: Any, seen: int = 0, seed: int = 0) -> OnlineVBState:
        prior = beliefs_before(problem, params, self.prior)
        statistics = problem.model.expected(mixture_of(problem).expected(prior))
        return OnlineVBState(prior, prior, statistics, nothing(problem), 0, 0.0, 0, 0, 0)

    def check_state(self, model: Model, state: OnlineVBState) -> None:
        check_kind("state", state, OnlineVBState)
        state.check(model)

    def step(
        self, problem: Problem, state: OnlineVBState, rows: Rows
    ) -> tuple[OnlineVBState, list[Info]]:
        size = self.batch_size
        return learn_in_batches(problem, state, rows, size, self._gathering, self._update)

    def _gathering(self, problem: Problem, state: OnlineVBState, rows: Rows) -> OnlineVBState:
        gathered = gather(self._fold(problem, state), problem.tile, state.gathered, rows)
        return replace(state, gathered=gathered)

    def _fold(self, problem: Problem, state: OnlineVBState) -> Fold:
        return expecting(problem, mixture_of(problem).surrogate(state.params))

    def _update(self, problem: Problem, state: OnlineVBState) -> tuple[OnlineVBState, list[Info]]:
        mixture, n = mixture_of(problem), state.gathered.n
        sums = total(self._fold(problem, state), state.gathered)
        batch: Any = problem.model.statistics(mixture.surrogate(state.params), sums)
        state = replace(state, gathered=nothing(problem), rows=state.rows + n)
        if not batch.count > 0:
            return state, []
        state = replace(state, weight=state.weight + batch.count, updates=state.updates + 1)
        if self.form == "streaming":
            rho, statistics = 1.0, state.statistics
            beliefs = mixture.absorb(state.params, batch)
        else:
            rho = step_of(float(self.schedule([state.updates])[0]), batch.count, self.batch_size)
            statistics = state.statistics.mix(batch.normalized(), rho)
            beliefs = mixture.absorb(state.prior, statistics * self._weight_in_all(state))
        info = Info(n, batch.log_likelihood / batch.count, rho)
        return replace(state, params=beliefs, statistics=statistics), [info]

    def _weight_in_all(self, state: OnlineVBState) -> float:
        """What all rows weigh, those to come included."""
        share = 1.0 if self.n_rows is None else self.n_rows / state.rows
        return state.weight * share

    def close(self, problem: Problem, state: OnlineVBState) -> OnlineVBState:
        return self.closed(problem, state)[0]

    def closed(self, problem: Problem, state: OnlineVBState) -> tuple[OnlineVBState, list[Info]]:
        return self._update(problem, state) if state.gathered.n else (state, [])

    def end_pass(self, problem: Problem, state: OnlineVBState) -> tuple[OnlineVBState, list[Info]]:
        state, infos = self.closed(problem, state)
        return replace(state, passes=state.passes + 1), infos

    def finished(self, state: OnlineVBState) -> bool:
        return state.passes >= self.max_iter

    def estimate(self, problem: Problem, state: OnlineVBState) -> Any:
        return mixture_of(problem).expected(state.params)

    def merge(
        self, problem: Problem, before: OnlineVBState, states: Sequence[OnlineVBState]
    ) -> OnlineVBState:
        """Posteriors multiply and the prior is divided out, or statistics are averaged.

        The latter in the stochastic form, where every posterior is already that of all rows.
        """
        states = learned_more(self, problem, before, states)
        if len(states) < 2:
            return states[0] if states else before
        merged = replace(
            before,
            passes=max(s.passes for s in states),
            **counted(before, states, "rows", "weight", "updates", "repairs"),
        )
        if not merged.weight > before.weight:
            return merged
        mixture = mixture_of(problem)
        if self.form == "streaming":
            return replace(
                merged, params=mixture.combine(before.params, [s.params for s in states])
            )
        parts = [s.statistics * (s.weight - before.weight) for s in states]
        statistics = sum(parts[1:], parts[0]).normalized()
        beliefs = mixture.absorb(before.prior, statistics * self._weight_in_all(merged))
        return replace(merged, statistics=statistics, params=beliefs)
