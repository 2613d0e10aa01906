"""EM for streams that keeps a sample of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from mixfold.core.backend import Backend, Model
from mixfold.core.checks import check_kind, check_least, check_whole
from mixfold.core.initializer import Initializer
from mixfold.core.learner import Info, Learner, rows_before_start
from mixfold.core.learner_capabilities import at_most
from mixfold.core.params import Params
from mixfold.core.rows import Rows
from mixfold.core.statistics import Statistics
from mixfold.core.value import is_value, replace, value
from mixfold.learners._gathering import expecting, nothing, total
from mixfold.learners._kept_estimates import KeptEstimates, rows_until_change, weight_of
from mixfold.learners._kept_rows import KeptRows, nothing_kept, power_of_two
from mixfold.learners._merging import check_same_kind, learned_more
from mixfold.learners._refits import (
    WARM,
    best_of,
    em_on,
    gathered_with,
    statistics_of,
    tile_after,
)
from mixfold.learners._reservoir_state import ReservoirState, common_rows, rows_that_fit, united
from mixfold.learners._stochastic import BRANCH
from mixfold.learners._united_statistics import Part, improved_by_all, part_of
from mixfold.learners.em import EM
from mixfold.models.limits_from_data import with_limits, with_model
from mixfold.models.mixture_model import MixtureBackend, MixtureModel, MixtureParams

ROWS_TO_START = 16
LEAST_REFIT = 64  # rows after which EM runs again where a pass has ended with fewer
# after rows were dropped: one part in so many more rows updates parameters, and counts for so much
GROWTH, LEAST_STEP = 16, 0.2


@value
class ReservoirEM(Learner[ReservoirState]):
    """EM on all rows of a stream, or on a random sample of them and statistics of all.

    Rows are kept as long as they fit into `memory_budget`, afterwards a uniform random sample.
    While all are kept, parameters are computed when they are read, as `fit` computes them: the best
    of several candidates, and EM on all rows. Reading often takes little time: until there are a
    fourth more rows, an eighth of fewer than 4,096, or twice as many from `sample_size` on, EM
    continues from what the last search has found; until there are a sixteenth more, one EM step
    adds them; and from 1,024 rows on, the last 0.4% of them may have to wait. When rows do not fit
    any more, statistics are updated as in stepwise EM, s <- 0.8 s + 0.2 sbar, where sbar are those
    of the latest sixteenth of the rows, and candidates from the kept rows are tried at every
    eightfold number of rows. With one
    component the estimate is that of all rows, to rounding. Parameters do not depend on blocks. Use
    it for streams and sources that can be read only once.

    Parameters
    ----------
    memory_budget : int, default=67108864
        The number of bytes for kept rows; at least 512 rows are kept in any case.
    starts : int, default=10
        The number of candidates of every search for better parameters.
    sample_size : int, default=20000
        The number of rows on which candidates are compared.
    prior_strength : float or None, default=None
        How many times a weak prior of Gaussian covariances counts while all rows are kept; 0 is
        maximum likelihood, and None is chosen by cross-validation. See `Auto`.
    init_from : tuple of initializers, default=()
        The initializers of candidates; by default those of the estimator. Without any, as with
        parameters that were given, EM always continues from the current parameters.

    Examples
    --------
    >>> from mixfold import Mixture, datasets
    >>> model = Mixture("gaussian", 2, learner="reservoir-em", random_state=0)
    >>> for rows in datasets.load_faithful().reshape(-1, 16, 2):
    ...     model = model.partial_fit(rows)
    >>> sorted(model.means_[:, 1].round(1).tolist())
    [54.5, 80.0]
    """

    supports_warm_start = True
    serves_noise = True
    settles_late = True
    varied_starts: ClassVar[bool] = True

    memory_budget: int = 2**26
    starts: int = 10
    sample_size: int = 20_000
    prior_strength: float | None = None
    init_from: tuple[Initializer, ...] = ()

    def __post_init__(self) -> None:
        for name in ("memory_budget", "starts", "sample_size"):
            check_whole(name, getattr(self, name))
        check_least("prior_strength", at_most(self.prior_strength), 0.0)

    @property
    def searches_later(self) -> bool:
        """Whether there are initializers to search with."""
        return bool(self.init_from)

    def searching_from(self, kinds: tuple[Initializer, ...]) -> Learner:
        found = tuple(kind for kind in kinds if kind.random and is_value(kind))
        return self if self.init_from else replace(self, init_from=found)

    def why_unsupported(self, model: Model) -> str | None:
        if isinstance(model, MixtureModel):
            return None
        return f"learner is ReservoirEM, which learns mixtures, not {model!r}: use 'online-em'"

    def init(
        self, backend: Backend[Any], params: Params, seen: int = 0, seed: int = 0
    ) -> ReservoirState:
        return ReservoirState(
            params,
            statistics=None,
            before=None,
            gathered=nothing(backend),
            kept=nothing_kept(),
            family=backend.model.family,
            rows=0,
            passes=0,
            n_degenerate=0,
            seed=seed,
        )

    def init_after_fit(
        self, backend: Backend[Any], params: Params, rows: int, weight: float, seed: int = 0
    ) -> ReservoirState:
        state = self.init(backend, params, seed=seed)
        if not weight > 0.0:
            return state
        before: Any = params
        return replace(state, before=backend.model.expected(before) * weight)

    def weight_learned(self, state: ReservoirState, rows: int) -> float:
        if state.statistics is not None:
            return state.weight
        known = 0.0 if state.before is None else float(state.before.count)
        return known + weight_of(state.kept.parts())

    def check_state(self, model: Model, state: ReservoirState) -> None:
        check_kind("state", state, ReservoirState)
        state.check(model)

    def model_learned(self, model: Model, state: ReservoirState) -> Model:
        return replace(model, family=state.family if state.fit is None else state.fit.family)

    def settled(self, backend: Backend[Any], state: ReservoirState) -> ReservoirState:
        """The state with the fit to the kept rows, if all are kept, from which reads continue."""
        if state.statistics is not None or not len(state.kept):
            return state
        bound = with_model(backend, replace(backend.model, family=state.family))
        fit = self._estimates(state).updated(bound, state.kept, state.fit)
        return state if fit is state.fit else replace(state, fit=fit)

    def without_rows(self, state: ReservoirState) -> ReservoirState:
        return replace(state, kept=nothing_kept(state.kept.below), fit=None)

    def rows_to_start(self, k: int, d: int) -> int:
        return max(ROWS_TO_START, 2 * k)

    def most_rows(self, d: int) -> int:
        """The number of rows that fit into the memory."""
        return rows_that_fit(self.memory_budget, d)

    # learning

    def step(
        self, backend: Backend[Any], state: ReservoirState, rows: Rows
    ) -> tuple[ReservoirState, list[Info]]:
        infos: list[Info] = []
        while len(rows):
            wanted = self._next_refit(backend.model.d, state)
            some = rows.cut(0, wanted - state.rows)
            rows = rows.cut(len(some), len(rows))
            state = self._with(backend, state, some)
            if state.rows == wanted:
                state, info = self._refitted(backend, state)
                infos += info
        return state, infos

    def _next_refit(self, d: int, state: ReservoirState) -> int:
        at, last = power_of_two(self.most_rows(d)), state.rows - state.gathered.n
        if state.statistics is None and state.rows < at:
            return at
        if last < at:
            return 2 * power_of_two(max(LEAST_REFIT, state.rows))
        return last + max(LEAST_REFIT, last // GROWTH)

    def _with(self, backend: MixtureBackend, state: ReservoirState, rows: Rows) -> ReservoirState:
        """The state with more rows under unchanged parameters."""
        most = self.most_rows(backend.model.d)
        kept = state.kept.with_rows(rows, state.seed, state.rows, most)
        after = replace(state, kept=kept, rows=state.rows + len(rows))
        if state.statistics is None:
            return replace(after, gathered=replace(state.gathered, n=state.gathered.n + len(rows)))
        tile = tile_after(state.rows - state.gathered.n)
        more = gathered_with(backend, state.mixture, state.gathered, rows, tile)
        return replace(after, gathered=more)

    def _limited(self, backend: MixtureBackend, state: ReservoirState) -> MixtureBackend:
        """The backend with limits from the kept rows, or those of the fit before."""
        family = state.family
        if state.before is None and len(state.kept):
            family = with_limits(backend.model.family, state.kept.sample(self.sample_size))
        return with_model(backend, replace(backend.model, family=family))

    def _estimates(self, state: ReservoirState) -> KeptEstimates:
        """What computes the parameters of the kept rows."""
        return KeptEstimates(
            self.init_from,
            self.starts,
            self.sample_size,
            self.prior_strength,
            state.mixture,
            state.before,
            state.seed,
        )

    def _whole(self, backend: MixtureBackend, state: ReservoirState) -> Statistics:
        """Statistics of all rows of the stream under the parameters of the last refit."""
        assert state.statistics is not None
        if not state.gathered.n:
            return state.statistics
        sums = total(expecting(backend, state.params), state.gathered)
        return state.statistics + backend.model.statistics(state.mixture, sums)

    def _part(
        self, backend: MixtureBackend, state: ReservoirState, kept: KeptRows | None = None
    ) -> Part:
        """The kept rows of a state, or others of its rows, and what is known of all."""
        whole = None if state.statistics is None else self._whole(backend, state)
        rows = state.kept if kept is None else kept
        return part_of(backend, rows, state.rows, state.mixture, whole)

    def _refitted(
        self, backend: MixtureBackend, state: ReservoirState
    ) -> tuple[ReservoirState, list[Info]]:
        """The state after EM on the kept rows, with the statistics of all rows."""
        n = state.gathered.n
        if not n or not len(state.kept):
            return replace(state, gathered=nothing(backend)), []
        known = 0.0 if state.statistics is None else float(state.statistics.count)
        if state.statistics is None:
            bound = with_model(backend, replace(backend.model, family=state.family))
            fit = self._estimates(state).searched(bound, state.kept)
            params, whole, family = fit.params, fit.statistics, fit.family
        else:
            backend = self._limited(backend, state)
            params, whole = self._improved(backend, state)
            family = backend.model.family
        weight = float(whole.count) - known
        after = replace(
            state,
            params=params,
            statistics=whole,
            gathered=nothing(backend),
            family=family,
            fit=None,
        )
        info = Info(n, float(whole.log_likelihood / whole.count), weight / whole.count)
        return after, [info] if weight > 0.0 else []

    def _improved(
        self, backend: MixtureBackend, state: ReservoirState
    ) -> tuple[MixtureParams, Statistics]:
        """Parameters with the rows since the last refit, and statistics under them."""
        fixed, kept = state.before, state.kept
        exact, whole = kept.below == 1.0, self._mixed(backend, state)
        params, _ = backend.model.maximize(whole if fixed is None else fixed + whole)
        if exact:
            params = em_on(self._em(WARM), backend, fixed, params, kept.parts())
        found = self._estimates(state).better(backend, kept, params) if _searches(state) else params
        if not exact and found is params:
            return params, whole
        now = statistics_of(backend, found, kept.parts())
        return found, now * (whole.count / now.count)

    def _mixed(self, backend: MixtureBackend, state: ReservoirState) -> Statistics:
        """Statistics of all rows, of which the latest count more if parameters have changed."""
        assert state.statistics is not None
        sums = total(expecting(backend, state.params), state.gathered)
        batch = backend.model.statistics(state.mixture, sums)
        whole = state.statistics + batch
        if backend.model.k == 1 or not batch.count > 0.0:
            return whole
        gamma = max(LEAST_STEP, batch.count / whole.count)
        return state.statistics.normalized().mix(batch.normalized(), gamma) * whole.count

    def _em(self, learner: EM) -> EM:
        return replace(learner, prior_strength=at_most(self.prior_strength))

    def end_pass(
        self, backend: Backend[Any], state: ReservoirState
    ) -> tuple[ReservoirState, list[Info]]:
        state, infos = self._refitted(backend, state)
        return replace(state, passes=state.passes + 1), infos

    def finished(self, state: ReservoirState) -> bool:
        return state.passes >= 1

    def estimate(self, backend: Backend[Any], state: ReservoirState) -> Any:
        """Parameters of the kept rows, or after an EM step with the statistics of all rows."""
        if not len(state.kept) or not state.gathered.n:
            return state.params
        model = replace(backend.model, family=state.family)
        if state.statistics is None:
            state = self.settled(backend, state)
            assert state.fit is not None
            return self._estimates(state).params(backend, state.kept, state.fit)
        if model.k == 1:
            whole = self._whole(with_model(backend, model), state)
        elif state.gathered.n == len(state.gathered.waiting):
            return state.params
        else:
            whole = state.statistics + model.statistics(state.params, state.gathered.sums)
        return model.maximize(whole if state.before is None else state.before + whole)[0]

    def rows_until_change(self, model: Model, state: ReservoirState) -> int:
        until_refit = self._next_refit(model.d, state) - state.rows
        if state.statistics is None:
            return min(until_refit, rows_until_change(model, state.kept))
        if model.k == 1:
            return 1
        tile = tile_after(state.rows - state.gathered.n)
        return min(until_refit, tile - len(state.gathered.waiting))

    # changes, copies and merging

    def restart(self, backend: Backend[Any], state: ReservoirState) -> ReservoirState:
        """Forget all rows but the latest ones."""
        k, d = backend.model.k, backend.model.d
        first = max(0, state.rows - max(rows_before_start(k, d), 5 * k * (d + 1)))
        new = self.init(backend, state.params, seed=state.seed)
        return replace(
            state.after(first),
            statistics=new.statistics,
            before=new.before,
            gathered=replace(new.gathered, n=state.rows - first),
        )

    def branch(self, model: Model, state: ReservoirState, number: int, of: int) -> ReservoirState:
        return replace(state, seed=state.seed + (number + 1) * BRANCH)

    def merge(
        self, backend: Backend[Any], before: ReservoirState, states: Sequence[ReservoirState]
    ) -> ReservoirState:
        """Unite the kept rows, and refit; rows learned before count once."""
        check_same_kind(before, states)
        own = [replace(state, seed=before.seed) for state in states]
        moved = learned_more(self, backend, before, own)
        if not moved:
            return own[0] if own else before
        return moved[0] if len(moved) == 1 else self._united(backend, before, moved)

    def _united(
        self, backend: MixtureBackend, before: ReservoirState, states: Sequence[ReservoirState]
    ) -> ReservoirState:
        below, (kept, rows) = min(state.kept.below for state in states), united(before, states)
        small = kept.with_threshold(below).reduced(self.most_rows(backend.model.d))
        learned = rows - before.rows + before.gathered.n
        after = replace(
            before,
            kept=small,
            rows=rows,
            gathered=replace(nothing(backend), n=learned),
            statistics=None,
            family=states[0].family,
            n_degenerate=max(state.n_degenerate for state in states),
        )
        if all(state.statistics is None for state in states) and small.below == 1.0:
            return after
        bound, sample = self._limited(backend, after), small.parts()
        learner, fixed = self._em(WARM), before.before
        best = best_of(learner, bound, [self.estimate(bound, one) for one in states], sample)
        params = em_on(learner, bound, fixed, best, sample)
        parts = [self._part(bound, state) for state in states]
        first = common_rows(before, states)
        common = self._part(bound, before, first) if len(first) else None
        params, whole = improved_by_all(bound, params, parts, common, fixed, sample)
        return replace(
            after,
            params=params,
            statistics=whole,
            gathered=nothing(backend),
            family=bound.model.family,
        )


def _searches(state: ReservoirState) -> bool:
    """Whether the number of rows has reached one in eight powers of two since the last refit."""
    before = (state.rows - state.gathered.n).bit_length()
    return state.rows.bit_length() > before and state.rows.bit_length() % 3 == 0
