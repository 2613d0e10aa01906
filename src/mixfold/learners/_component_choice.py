"""The number of components by BIC, changed by one component at a time, on rows in memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import NamedTuple

import numpy as np

from mixfold.core.arrays import on_host
from mixfold.core.initializer import Initializer
from mixfold.core.rows import Array, Rows
from mixfold.core.value import replace
from mixfold.learners._em_in_memory import learn
from mixfold.learners._moves import improve
from mixfold.learners.em import EM
from mixfold.learners.neighbouring_starts import Neighbour, merge_starts, split_starts
from mixfold.learners.search import LONG, MIDDLE, SAME, search
from mixfold.models.mixture_model import (
    MixtureBackend,
    MixtureModel,
    MixtureParams,
    count_spurious,
    number_of_rows,
)

MOST_STEPS = 64  # changes in one choice
SPLITS = 3  # that are tried together
# a merge is tried if it is expected to lose less than so many times what its parameters cost
TRIED_LOSS = 4.0
CANDIDATES = 10  # of a new search


class Fit(NamedTuple):
    """A mixture after EM on some rows, with their log-likelihood and half of BIC's penalty."""

    backend: MixtureBackend
    params: MixtureParams
    log_likelihood: float
    penalty: float
    spurious: int

    @property
    def criterion(self) -> float:
        """Log-likelihood less penalty, which is BIC / -2, in nats."""
        return self.log_likelihood - self.penalty

    @property
    def rank(self) -> tuple[int, float]:
        """Larger is better: first with fewer components that are degenerate on few rows.

        Their likelihood is not bounded, so that BIC says nothing about them.
        """
        return -self.spurious, self.criterion

    def beats(self, other: Fit) -> bool:
        """Whether this one is better."""
        return self.rank > other.rank


class Step(NamedTuple):
    """A change of the components: what was done, to which, and the fits before and after."""

    kind: str
    components: tuple[int, ...]
    before: Fit
    after: Fit


class ComponentChoice:
    """Changes the number of components as long as BIC falls.

    In every round the components that are expected to gain most are split, and those that are
    expected to lose least are merged or left out; the best of them after EM is kept if BIC prefers
    it. `sample` are the rows that BIC counts, and `most` is the largest number of components.
    """

    def __init__(
        self, backend: MixtureBackend, sample: Rows, most: int, prior_strength: float, seed: int
    ) -> None:
        self._backend, self._most, self._seed = backend, most, seed
        self._prior_strength = prior_strength
        self.n = number_of_rows([sample])
        self._rows = Rows(sample.x, _of_sum(sample, self.n)).on_host()

    def fit(self, learner: EM, params: MixtureParams) -> Fit:
        """The fit after EM from some parameters."""
        k = len(params.weights)
        backend = self._backend.with_model(replace(self._backend.model, k=k))
        learner = replace(learner, prior_strength=self._prior_strength)
        found, _ = learn(learner, backend, params, self._rows)
        return self.judged(backend, found)

    def judged(self, backend: MixtureBackend, params: MixtureParams) -> Fit:
        """The log-likelihood and the penalty of parameters."""
        model = backend.model
        log_density = on_host(backend.posterior(params, self._rows, False)[0])
        total = float(self._rows.weights() @ log_density)
        penalty = 0.5 * model.n_parameters() * log(self.n)
        spurious = count_spurious(model, params, [self._rows])
        return Fit(backend, params, total, penalty, spurious)

    def chosen(self, params: MixtureParams) -> tuple[Fit, list[Step]]:
        """The best fit that is found from some parameters by single changes, and these."""
        fit, steps = self.fit(LONG, params), list[Step]()
        while len(steps) < MOST_STEPS:
            found = self._step(fit)
            if found is None:
                break
            steps.append(found)
            fit = found.after
        return fit, steps

    def searched(
        self, params: MixtureParams, kinds: Sequence[Initializer]
    ) -> tuple[Fit, list[Step]]:
        """The same, if several splits at once and new candidates of some kinds are tried too."""
        fit, steps = self.chosen(params)
        for try_more in (self._several_splits, lambda one: self._candidates(one, kinds)):
            found = try_more(fit)
            if found:
                fit, more = self.chosen(found[-1].after.params)
                steps += [*found, *more]
        return fit, steps

    def _candidates(self, fit: Fit, kinds: Sequence[Initializer]) -> list[Step]:
        """The best of new candidates with as many components, if it is better."""
        if fit.backend.model.k == 1:
            return []
        backend, rows, strength = fit.backend, self._rows, self._prior_strength
        known = fit.params, fit.log_likelihood / self.n
        drawn = [improve(backend, known, rows, [self._seed, 1], strength)[0]]
        if kinds:
            drawn.append(search(backend, kinds, rows, [self._seed, 0], CANDIDATES, strength))
        after = max((self.judged(backend, one) for one in drawn), key=lambda one: one.rank)
        better = after.criterion > fit.criterion + SAME * self.n
        return [Step("search", (), fit, after)] if better and after.beats(fit) else []

    def _step(self, fit: Fit) -> Step | None:
        """The best change of one component, if it lowers BIC."""
        found = [one for one in (self._smaller(fit), self._larger(fit)) if one is not None]
        better = [one for one in found if one.after.beats(fit)]
        return max(better, key=lambda one: one.after.rank) if better else None

    def _several_splits(self, fit: Fit) -> list[Step]:
        """Several splits that lower BIC together where a single one does not; else none."""
        path, last = list[Step](), fit
        while len(path) < SPLITS and (further := self._larger(last)) is not None:
            path.append(further)
            last = further.after
            if last.beats(fit):
                return path
        return []

    def _larger(self, fit: Fit) -> Step | None:
        """The best of several splits."""
        model = fit.backend.model
        if model.k >= self._most:
            return None
        larger = self._with(model, model.k + 1)
        seed = [self._seed, 2 * model.k]
        found = split_starts(fit.backend, fit.params, larger, self._rows, seed)
        return self._best("split", fit, found)

    def _smaller(self, fit: Fit) -> Step | None:
        """The best of several merges, and of components that are left out."""
        model = fit.backend.model
        if model.k == 1:
            return None
        smaller = self._with(model, model.k - 1)
        seed = [self._seed, 2 * model.k + 1]
        found = merge_starts(fit.backend, fit.params, smaller, self._rows, seed)
        saved = fit.penalty - 0.5 * smaller.model.n_parameters() * log(self.n)
        if not fit.spurious:
            found = [one for one in found if -one.gain < TRIED_LOSS * saved]
        best = self._best("merge", fit, found)
        return best if best is None or len(best.components) > 1 else best._replace(kind="remove")

    def _with(self, model: MixtureModel, k: int) -> MixtureBackend:
        return self._backend.with_model(replace(model, k=k))

    def _best(self, kind: str, fit: Fit, neighbours: Sequence[Neighbour]) -> Step | None:
        """The neighbour of highest criterion after EM."""
        tried = [(one.components, self.fit(MIDDLE, one.params)) for one in neighbours]
        tried = [one for one in tried if np.isfinite(one[1].criterion)]
        if not tried:
            return None
        components, best = max(tried, key=lambda one: one[1].rank)
        return Step(kind, components, fit, self.fit(LONG, best.params))


def _of_sum(rows: Rows, total: float) -> Array | None:
    """Weights of which the sum is `total`; None if rows have none."""
    if rows.weight is None:
        return None
    return rows.weights() * (total / rows.total_weight())
