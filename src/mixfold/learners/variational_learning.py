"""Variational Bayes over whole passes, for the estimator with scikit-learn's interface."""

from __future__ import annotations

import numpy as np

from mixfold.core.backend import Backend, Model
from mixfold.core.checks import check_count, check_kind, check_least, check_whole
from mixfold.core.learner import Info, Learner
from mixfold.core.params import Params
from mixfold.core.rows import Rows
from mixfold.core.value import replace, value
from mixfold.families.gaussian import Gaussian
from mixfold.learners._convergence import has_converged
from mixfold.learners._gathering import Fold, Gathered, expecting, gather, nothing, total
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.models.variational_gaussian import (
    VariationalPosterior,
    VariationalPrior,
    entropy,
    gaussian,
    updated,
)


@value
class VariationalState:
    """The posterior, the sums of the current pass, and the lower bound of the pass before."""

    params: VariationalPosterior
    gathered: Gathered
    passes: int
    before: float
    converged: bool
    n_degenerate: int


@value
class VariationalEM(Learner[VariationalState]):
    """Alternate between responsibilities, from E[log p(x, k)], and the posterior of parameters.

    Learning has converged when the lower bound changes by less than `tol`. `prior` is None until
    the data are known.
    """

    tol: float = 1e-3
    max_iter: int = 100
    prior: VariationalPrior | None = None

    rereads = True

    def __post_init__(self) -> None:
        check_least("tol", self.tol, 0.0)
        check_whole("max_iter", self.max_iter, 0)

    def why_unsupported(self, model: Model) -> str | None:
        if isinstance(model, MixtureModel) and isinstance(model.family, Gaussian):
            return None
        return f"VariationalEM learns mixtures of Gaussians, not {model!r}"

    def prior_count(self, sample: int, k: int, d: int) -> int:
        return sample

    @property
    def _prior(self) -> VariationalPrior:
        assert self.prior is not None, "the estimator knows the data"
        return self.prior

    def init(
        self, backend: Backend, params: Params, seen: int = 0, seed: int = 0
    ) -> VariationalState:
        posterior = params
        if isinstance(params, MixtureParams):
            statistics = backend.model.expected(params) * float(seen)
            posterior = updated(gaussian(backend.model), self._prior, statistics)
        check_kind("the posterior", posterior, VariationalPosterior)
        assert isinstance(posterior, VariationalPosterior)
        return VariationalState(posterior, nothing(backend), 0, -np.inf, False, 0)

    def check_state(self, model: Model, state: VariationalState) -> None:
        check_kind("state", state, VariationalState)
        assert isinstance(model, MixtureModel)
        self._prior.check(model)
        state.params.check(model)
        state.gathered.check(model, state.params.expected_log_params)
        for name in ("passes", "n_degenerate"):
            check_count(name, getattr(state, name))

    def step(
        self, backend: Backend, state: VariationalState, rows: Rows
    ) -> tuple[VariationalState, list[Info]]:
        gathered = gather(_fold(backend, state), backend.tile, state.gathered, rows)
        return replace(state, gathered=gathered), []

    def end_pass(
        self, backend: Backend, state: VariationalState
    ) -> tuple[VariationalState, list[Info]]:
        params, family = state.params.expected_log_params, gaussian(backend.model)
        sums = total(expecting(backend, params), state.gathered)
        statistics = backend.model.statistics(params, sums)
        passes = state.passes + 1
        if not statistics.count > 0:
            return replace(state, gathered=nothing(backend), passes=passes), []
        after = updated(family, self._prior, statistics)
        bound = entropy(family, params, statistics) + after.log_constant(family)
        converged = has_converged([bound - state.before], bound, 1.0, self.tol, "step")
        info = Info(state.gathered.n, statistics.log_likelihood / statistics.count, 1.0, bound)
        return VariationalState(after, nothing(backend), passes, bound, converged, 0), [info]

    def finished(self, state: VariationalState) -> bool:
        return state.converged or state.passes >= self.max_iter

    def converged(self, state: VariationalState) -> bool:
        return state.converged

    def estimate(self, backend: Backend, state: VariationalState) -> MixtureParams:
        return state.params.point()


def _fold(backend: Backend, state: VariationalState) -> Fold:
    return expecting(backend, state.params.expected_log_params)
