"""The learner that needs no tuning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from mixfold.core.backend import Backend, Model
from mixfold.core.backend_capabilities import CandidateKernel
from mixfold.core.checks import check_kind, check_least, check_whole
from mixfold.core.errors import InvalidInputError
from mixfold.core.learner import Info, Learner
from mixfold.core.learner_capabilities import at_most
from mixfold.core.params import Params
from mixfold.core.rows import Rows
from mixfold.core.value import replace, value
from mixfold.learners._convergence import TOL
from mixfold.learners._merging import check_same_kind
from mixfold.learners._stochastic_state import StochasticState
from mixfold.learners.em import EM, EMState
from mixfold.learners.further_search import rows_to_compare
from mixfold.learners.mini_batch_em import MiniBatchEM
from mixfold.learners.reservoir_em import ReservoirEM
from mixfold.learners.truncated_em import TruncatedEM, TruncatedState

# Components from which TruncatedEM reaches the likelihood of accelerated EM in less time.
MANY = 1000


@value
class AutoState:
    """The state of the current stage, and whether rows are shared out among workers."""

    inner: EMState | StochasticState | TruncatedState
    polishing: bool
    shared: bool = False

    @property
    def params(self) -> Params:
        """Parameters being trained."""
        return self.inner.params

    @property
    def n_degenerate(self) -> int:
        """Degenerate components."""
        return int(self.inner.n_degenerate)


@value
class Auto(Learner[AutoState]):
    """The best of several initialisations, one pass of mini-batch EM, then accelerated EM.

    With 1000 components or more of families that it serves, and without `prior_strength`,
    `TruncatedEM` takes the place of accelerated EM. Use it unless there is a reason not to. For
    `partial_fit`, `learn_one` and sources that can be read only once it is `ReservoirEM`.

    Parameters
    ----------
    starts : int, default=10
        The largest number of initialisations that are compared. They are of several kinds, which
        take turns, unless `init` names one. Every ten give one complete fit, which is kept if both
        the log-likelihood and its sum with the log prior, `lower_bound_`, are higher than before.
        So from ten on, more tens never end lower in either. From a sample of 8000 rows or more,
        fewer than ten are drawn once four, or three kinds, agree on the best. From 256 components
        on, every ten are one or two initialisations that are improved within a budget of work.
    sample_size : int, default=20000
        The number of rows on which they are compared. It grows in proportion where the default
        would be fewer than 200 rows per component or one per parameter, within 64 MiB. If it has
        fewer than 50 rows of some component, or fewer than the component has parameters, a
        larger sample of up to 64 MiB is drawn as well.
    tol : float, default=0.005
        Learning has converged when less than so many nats of the log-likelihood of all rows are
        left to gain, as estimated from the gains of the last steps. Estimates are then within
        sqrt(2 tol) = 0.1 standard errors of the maximum, however many rows there are. 0 is never.
    max_iter : int, default=500
        The largest number of passes of accelerated EM.
    batch_size : int or None, default=None
        Rows per update of mini-batch EM; None is chosen by the number of rows.
    prior_strength : float or None, default=None
        How many times a weak prior of Gaussian covariances, or of products, counts; 0 is maximum
        likelihood. For Gaussians, None chooses 1, 0.1, 0.01 or 0 by cross-validation, or 0 at once
        with more than 4000 rows, or 20 for each parameter; for products it is 1.

    Notes
    -----
    With few rows for the number of parameters, the highest likelihood belongs to components that
    have shrunk onto a few rows, and describes new rows badly. So the log-likelihood plus the log
    density of a prior is maximised, which pulls the covariance of every component towards that of
    all rows divided by K^(2/d), as in Fraley and Raftery (2007). It counts for 2p / n rows per
    component, where p is the number of parameters of all covariances, and for (1000 / n)^2 of
    that with n > 1000 rows, times `prior_strength`. Where components are far apart, the covariance
    of all rows is much wider than theirs, and little of it is best. Means and weights have no
    prior, and a single component has none. In products of families every component has one row
    more that is distributed as all rows are, in columns other than Gaussian ones. The lightest row
    counts once, and a row of twice its weight as two. `history_.log_likelihood`, `score`, `aic` and
    `bic` are those of the likelihood at this estimate; `history_.bound` and `lower_bound_` include
    the prior, whose log density is 0 at its largest.

    Examples
    --------
    >>> from mixfold import Mixture, datasets
    >>> model = Mixture("gaussian", 2, random_state=0).fit(datasets.load_faithful())
    >>> sorted(model.means_[:, 1].round(1).tolist())
    [54.5, 80.0]

    References
    ----------
    Fraley and Raftery (2007), Bayesian regularization for normal mixture estimation and model-based
    clustering, Journal of Classification 24, 155-181.
    """

    varied_starts: ClassVar[bool] = True
    serves_noise = True

    starts: int = 10
    sample_size: int = 20_000
    tol: float = TOL
    max_iter: int = 500
    batch_size: int | None = None
    prior_strength: float | None = None

    def __post_init__(self) -> None:
        for name in ("starts", "sample_size"):
            check_whole(name, getattr(self, name))
        check_least("tol", self.tol, 0.0)
        check_least("prior_strength", at_most(self.prior_strength), 0.0)
        check_whole("max_iter", self.max_iter, 0)
        if self.batch_size is not None:
            check_whole("batch_size", self.batch_size)

    def resolve(self, n: int | None, d: int, streaming: bool) -> Learner:
        if streaming:
            return self.for_one_pass()
        if n is not None and n <= self.sample_size:
            return self._polish()
        if self.batch_size is not None:
            return self
        most = min(2**19, max(1024, 2**22 // d))
        return replace(self, batch_size=most if n is None else min(most, max(1024, n // 32)))

    def rows_to_sample(self, k: int, d: int) -> int:
        return rows_to_compare(self.sample_size, k, d)

    def for_one_pass(self) -> Learner:
        """The learner for a source that can be read only once."""
        return ReservoirEM(
            starts=self.starts, sample_size=self.sample_size, prior_strength=self.prior_strength
        )

    def prior_count(self, sample: int, k: int, d: int) -> int:
        return sample

    def check_state(self, model: Model, state: AutoState) -> None:
        check_kind("state", state, AutoState)
        self._learner(state).check_state(model, state.inner)

    def _fold(self) -> MiniBatchEM:
        return MiniBatchEM(batch_size=self.batch_size or 2**16, sampling="stream", max_iter=1)

    def _polish(self) -> EM:
        return EM(
            tol=self.tol,
            max_iter=self.max_iter,
            accelerate=True,
            prior_strength=at_most(self.prior_strength),
        )

    def _last(self, backend: Backend, state: AutoState) -> EM | TruncatedEM:
        """The learner of the last stage: with many components, one that searches them.

        It keeps the components of rows, which workers do not.
        """
        model, truncated = backend.model, TruncatedEM(max_iter=self.max_iter)
        prior = bool(self.prior_strength) or getattr(model, "has_prior", False)
        if state.shared or model.k < MANY or prior or not truncated.serves(model):
            return self._polish()
        return self._polish() if backend.capability(CandidateKernel) is None else truncated

    def _learner(self, state: AutoState) -> Any:
        if isinstance(state.inner, TruncatedState):
            return TruncatedEM(max_iter=self.max_iter)
        return self._polish() if state.polishing else self._fold()

    def init(self, backend: Backend, params: Params, seen: int = 0, seed: int = 0) -> AutoState:
        return AutoState(self._fold().init(backend, params, seen), False)

    def step(self, backend: Backend, state: AutoState, rows: Rows) -> tuple[AutoState, list[Info]]:
        inner, infos = self._learner(state).step(backend, state.inner, rows)
        return replace(state, inner=inner), infos

    def end_pass(self, backend: Backend, state: AutoState) -> tuple[AutoState, list[Info]]:
        inner, infos = self._learner(state).end_pass(backend, state.inner)
        if state.polishing:
            return replace(state, inner=inner), infos
        params, last = self._fold().estimate(backend, inner), self._last(backend, state)
        polished = replace(last.init(backend, params), n_degenerate=inner.n_degenerate)
        return replace(state, inner=polished, polishing=True), infos

    def flushed(self, backend: Backend, state: AutoState) -> AutoState:
        return self.flush(backend, state)[0]

    def flush(self, backend: Backend, state: AutoState) -> tuple[AutoState, list[Info]]:
        inner, infos = self._learner(state).flush(backend, state.inner)
        return replace(state, inner=inner), infos

    def is_reduction(self, state: AutoState) -> bool:
        return bool(self._learner(state).is_reduction(state.inner))

    def branch(self, model: Model, state: AutoState, number: int, of: int) -> AutoState:
        inner = self._learner(state).branch(model, state.inner, number, of)
        return replace(state, inner=inner, shared=True)

    def merge(self, backend: Backend, before: AutoState, states: Sequence[AutoState]) -> AutoState:
        """Merge with the learner of the current stage."""
        check_same_kind(before, states)
        for state in states:
            if state.polishing != before.polishing:
                raise InvalidInputError(
                    "states of different stages of Auto cannot be merged: merge before a pass ends"
                )
        inner = self._learner(before).merge(backend, before.inner, [one.inner for one in states])
        return replace(before, inner=inner, shared=any(one.shared for one in (before, *states)))

    def compact(self, state: AutoState) -> AutoState:
        return replace(state, inner=self._learner(state).compact(state.inner))

    def weight_learned(self, state: AutoState, rows: int) -> float:
        return float(self._learner(state).weight_learned(state.inner, rows))

    def finished(self, state: AutoState) -> bool:
        return state.polishing and bool(self._learner(state).finished(state.inner))

    def converged(self, state: AutoState) -> bool:
        return state.polishing and bool(self._learner(state).converged(state.inner))

    def estimate(self, backend: Backend, state: AutoState) -> Any:
        return self._learner(state).estimate(backend, state.inner)
