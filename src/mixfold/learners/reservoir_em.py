"""EM for streams that keeps a sample of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np

from mixfold.core.backend import Backend, Model
from mixfold.core.checks import check_kind, check_whole
from mixfold.core.initializer import Initializer
from mixfold.core.learner import Info, Learner, rows_before_start
from mixfold.core.params import Params
from mixfold.core.rows import Rows
from mixfold.core.statistics import Additive
from mixfold.core.value import is_value, replace, value
from mixfold.learners._gathering import Fold, closed, expecting, gather, nothing, total
from mixfold.learners._kept_rows import UNIT, KeptBlock, nothing_kept
from mixfold.learners._merging import check_same_kind, learned_more
from mixfold.learners._refits import Known, better, corrected, fitted, statistics_of
from mixfold.learners._reservoir_state import ReservoirState
from mixfold.learners._stochastic import BRANCH
from mixfold.learners.em import EM
from mixfold.learners.search import search
from mixfold.models.limits_from_data import limited, with_model
from mixfold.models.mixture_model import MixtureBackend, MixtureModel, MixtureParams

FIRST = 128  # rows at the first refit
REFITS_PER_DOUBLING = 2
MANY = 4096  # rows up to which every refit is preceded by a search, afterwards every doubling
WARM = EM(tol=0.02, max_iter=40, accelerate=True)
VISITS = 2**17  # rows that are visited for up-to-date parameters, in all passes
LAST_PASSES = 12  # the largest number of these passes
BYTES_PER_ROW = 24  # of keys, numbers and weights


@value
class ReservoirEM(Learner[ReservoirState]):
    """EM on all rows of a stream, or on a random sample of them and statistics of all.

    Rows are kept as long as they fit into `memory_budget`, afterwards a uniform random sample of
    all rows. Whenever the number of rows has grown by 41%, EM runs on the kept rows, from the
    current parameters and, at every doubling, from new candidates, of which the best is chosen.
    The statistics of all rows are kept too, each row counting the same: where rows are not kept,
    the sample only tells how these statistics change with the parameters. With one component the
    estimate is that of all rows, to rounding.

    Use it for streams, and for sources that can be read only once; it is what `partial_fit` of
    "auto" does. For streams that change, wrap it in `DriftAware`.

    Parameters
    ----------
    memory_budget : int, default=67108864
        The number of bytes for kept rows; at least some thousand rows are kept in any case.
    starts : int, default=10
        The number of candidates of every search for better parameters.
    sample_size : int, default=20000
        The number of rows on which candidates are compared.
    init_from : initializer or None, default=None
        The initializer of candidates; None is that of the estimator. Without one, as with
        parameters that were given, EM always continues from the current parameters.

    Examples
    --------
    >>> from mixfold import Mixture, datasets
    >>> model = Mixture("gaussian", 2, learner="reservoir-em", random_state=0)
    >>> for rows in datasets.load_faithful().reshape(-1, 16, 2):
    ...     model = model.partial_fit(rows)
    >>> sorted(model.means_[:, 1].round(1).tolist())
    [54.5, 80.0]

    References
    ----------
    Vitter (1985), Random sampling with a reservoir; Neal and Hinton (1998), A view of the EM
    algorithm that justifies incremental, sparse, and other variants; Chen et al. (2018), Stochastic
    expectation maximization with variance reduction.
    """

    supports_warm_start = True

    memory_budget: int = 2**26
    starts: int = 10
    sample_size: int = 20_000
    init_from: Initializer | None = None

    def __post_init__(self) -> None:
        for name in ("memory_budget", "starts", "sample_size"):
            check_whole(name, getattr(self, name))

    def searching_from(self, start: Initializer) -> Learner:
        found = start if start.random and is_value(start) else None
        return self if self.init_from is not None else replace(self, init_from=found)

    def why_unsupported(self, model: Model) -> str | None:
        if isinstance(model, MixtureModel):
            return None
        return f"learner is ReservoirEM, which learns mixtures, not {model!r}: use 'online-em'"

    def init(
        self, backend: Backend, params: Params, seen: int = 0, seed: int = 0
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
        self, backend: Backend, params: Params, rows: int, weight: float, seed: int = 0
    ) -> ReservoirState:
        state = self.init(backend, params, seed=seed)
        if not weight > 0.0:
            return state
        return replace(state, before=backend.model.expected(params) * weight)

    def weight_learned(self, state: ReservoirState, rows: int) -> float:
        return state.weight

    def check_state(self, model: Model, state: ReservoirState) -> None:
        check_kind("state", state, ReservoirState)
        state.check(model)

    def model_learned(self, model: Model, state: ReservoirState) -> Model:
        return replace(model, family=state.family)

    def without_rows(self, state: ReservoirState) -> ReservoirState:
        return replace(state, kept=nothing_kept(state.kept.below))

    def most_rows(self, d: int) -> int:
        """The number of rows that fit into the memory."""
        return max(self.memory_budget // (8 * d + BYTES_PER_ROW), 2 * UNIT)

    # learning

    def step(
        self, backend: Backend, state: ReservoirState, rows: Rows
    ) -> tuple[ReservoirState, list[Info]]:
        infos: list[Info] = []
        while len(rows):
            wanted = next_refit(state.rows)
            some = rows.cut(0, wanted - state.rows)
            rows = rows.cut(len(some), len(rows))
            state = self._with(backend, state, some)
            if state.rows == wanted:
                state, info = self._refitted(backend, state, is_search(wanted))
                infos += info
        return state, infos

    def _with(self, backend: Backend, state: ReservoirState, rows: Rows) -> ReservoirState:
        """The state with more rows under unchanged parameters."""
        most, fold = self.most_rows(backend.model.d), self._fold(backend, state)
        kept = state.kept.with_rows(rows, state.seed, state.rows, most)
        gathered, first = state.gathered, 0
        while first < len(rows):  # one unit at a time, whatever the blocks
            last = first + UNIT - len(gathered.waiting)
            gathered = gather(fold, UNIT, gathered, rows.cut(first, last))
            first = last
        return replace(state, kept=kept, gathered=gathered, rows=state.rows + len(rows))

    def _fold(self, backend: Backend, state: ReservoirState) -> Fold:
        return expecting(backend, state.params)

    def _limited(self, backend: Backend, state: ReservoirState) -> MixtureBackend:
        """The backend with the limits of the state."""
        if state.family is backend.model.family:
            return backend
        return with_model(backend, replace(backend.model, family=state.family))

    def _since(self, backend: Backend, state: ReservoirState) -> Additive | None:
        """Statistics of the rows since the last refit; None if they have no weight."""
        if not state.gathered.n:
            return None
        sums = total(self._fold(backend, state), state.gathered)
        found: Additive = backend.model.statistics(state.params, sums)
        return found if found.count > 0 else None

    def _refitted(
        self, backend: Backend, state: ReservoirState, searching: bool
    ) -> tuple[ReservoirState, list[Info]]:
        """The state after EM on the kept rows, with the statistics of all rows."""
        since = self._since(backend, state)
        n, state_then = state.gathered.n, replace(state, gathered=nothing(backend))
        if since is None:
            return state_then, []
        whole = since if state.statistics is None else state.statistics + since
        info = Info(n, since.log_likelihood / since.count, since.count / whole.count)
        state = self._with_limits(backend, replace(state_then, statistics=whole))
        return self._improved(self._limited(backend, state), state, [state.params], searching), [
            info
        ]

    def _with_limits(self, backend: Backend, state: ReservoirState) -> ReservoirState:
        """The state with limits from the kept rows, if they are all there is."""
        if state.before is not None or not len(state.kept):
            return state
        sample = state.kept.sample(self.sample_size)
        return replace(state, family=limited(backend, lambda: sample).model.family)

    def _improved(
        self,
        backend: MixtureBackend,
        state: ReservoirState,
        anchors: Sequence[Params],
        searching: bool,
    ) -> ReservoirState:
        """The state after EM; its statistics are those of all rows under its parameters."""
        parts, model = _of_mean_weight_one(state.kept.parts()), backend.model
        anchor: Any = anchors[0]
        kept = statistics_of(backend, anchor, parts)
        known = Known(anchor, state.statistics, kept, state.before)
        start, _ = model.maximize(known.with_fixed(known.whole))
        exact = state.kept.below == 1.0
        params = self._warm(backend, known, start, parts, exact)
        found = self._searched(backend, state, params, parts) if searching else None
        if found is not None:
            params = found
        now = statistics_of(backend, params, parts)
        if exact or found is not None:
            whole = now * (known.whole.count / now.count)
        else:
            whole = known.under(backend, params, now)
        return replace(state, params=params, statistics=whole)

    def _warm(
        self,
        backend: MixtureBackend,
        known: Known,
        start: MixtureParams,
        parts: Sequence[Rows],
        exact: bool,
    ) -> MixtureParams:
        """EM from parameters."""
        if exact and known.fixed is None:
            return fitted(WARM, backend, start, parts)[0]
        return corrected(backend, known, start, parts)

    def _searched(
        self,
        backend: MixtureBackend,
        state: ReservoirState,
        params: MixtureParams,
        parts: Sequence[Rows],
    ) -> MixtureParams | None:
        """Parameters from new candidates, if they are better."""
        if self.init_from is None or state.before is not None or backend.model.k == 1:
            return None
        (sample,) = _of_mean_weight_one([state.kept.sample(self.sample_size)])
        seed = [state.seed, state.rows]
        found = search(backend, self.init_from, sample, seed, self.starts)
        found, _ = fitted(WARM, backend, found, parts)
        return found if better(backend, found, params, parts) else None

    def end_pass(
        self, backend: Backend, state: ReservoirState
    ) -> tuple[ReservoirState, list[Info]]:
        state, infos = self._refitted(backend, state, True)
        return replace(state, passes=state.passes + 1), infos

    def flushed(self, backend: Backend, state: ReservoirState) -> ReservoirState:
        return replace(state, gathered=closed(self._fold(backend, state), state.gathered))

    def finished(self, state: ReservoirState) -> bool:
        return state.passes >= 1

    # parameters

    def estimate(self, backend: Backend, state: ReservoirState) -> Any:
        """The parameters from the statistics of all rows."""
        since = self._since(backend, state)
        if since is None:
            return state.params
        parts = [one for one in (state.before, state.statistics) if one is not None]
        whole = sum(parts[1:], start=parts[0]) + since if parts else since
        return self._limited(backend, state).model.maximize(whole)[0]

    def settled(self, backend: Backend, state: ReservoirState) -> Any:
        """The parameters after some passes over the kept rows, if there are new ones among them."""
        params = self.estimate(backend, state)
        passes = self._last_passes(state)
        if not passes:
            return params
        state = self._with_limits(backend, state)
        parts = _of_mean_weight_one(state.kept.parts())
        learner = replace(WARM, max_iter=passes)
        return fitted(learner, self._limited(backend, state), params, parts)[0]

    def _last_passes(self, state: ReservoirState) -> int:
        """How many passes: the more, the more rows are new, and none if not all are kept."""
        n = len(state.kept)
        if not n or state.before is not None or state.kept.below < 1.0:
            return 0
        new = min(1.0, 3.0 * state.gathered.n / n)
        return min(ceil(LAST_PASSES * new), VISITS // n)

    # changes, copies and merging

    def restart(self, backend: Backend, state: ReservoirState) -> ReservoirState:
        """Forget all rows but the latest ones."""
        k, d = backend.model.k, backend.model.d
        first = max(0, state.rows - max(rows_before_start(k, d), 5 * k * (d + 1)))
        latest = [_renumbered(block, -first) for block in state.kept.since(first)]
        fresh = replace(
            self.init(backend, state.params, seed=state.seed),
            kept=nothing_kept(state.kept.below).joined(latest),
            family=state.family,
            rows=state.rows - first,
            passes=state.passes,
            n_degenerate=state.n_degenerate,
        )
        if not len(fresh.kept):
            return fresh
        rows = _of_mean_weight_one(fresh.kept.parts())
        whole = statistics_of(backend, state.params, rows)
        fresh = self._with_limits(backend, replace(fresh, statistics=whole))
        return self._improved(self._limited(backend, fresh), fresh, [state.params], True)

    def branch(self, model: Model, state: ReservoirState, number: int, of: int) -> ReservoirState:
        return replace(state, seed=state.seed + (number + 1) * BRANCH)

    def merge(
        self, backend: Backend, before: ReservoirState, states: Sequence[ReservoirState]
    ) -> ReservoirState:
        """Unite the kept rows, and refit; rows learned before count once."""
        check_same_kind(before, states)
        own = [replace(state, seed=before.seed) for state in states]
        moved = learned_more(self, backend, before, own)
        if not moved:
            return own[0] if own else before
        return moved[0] if len(moved) == 1 else self._united(backend, before, moved)

    def _united(
        self, backend: Backend, before: ReservoirState, states: Sequence[ReservoirState]
    ) -> ReservoirState:
        below = min(state.kept.below for state in states)
        kept = nothing_kept().joined(states[0].kept.until(before.rows))
        rows, weight = before.rows, _weight(backend, self, before)
        known = weight
        for state in states:
            shift = rows - before.rows
            kept = kept.joined([_renumbered(b, shift) for b in state.kept.since(before.rows)])
            rows += state.rows - before.rows
            weight += _weight(backend, self, state) - known
        kept = kept.with_threshold(below).reduced(self.most_rows(backend.model.d))
        after = replace(before, kept=kept, rows=rows, gathered=nothing(backend))
        after = replace(after, n_degenerate=max(state.n_degenerate for state in states))
        if not len(kept):
            return after
        after = self._with_limits(backend, after)
        bound = self._limited(backend, after)
        parts = _of_mean_weight_one(kept.parts())
        best: Any = self.estimate(bound, states[0])
        for state in states[1:]:
            other = self.estimate(bound, state)
            best = other if better(bound, other, best, parts) else best
        found = statistics_of(bound, best, parts)
        after = replace(after, statistics=found * (weight / found.count))
        return self._improved(bound, after, [best], False)


def _weight(backend: Backend, learner: ReservoirEM, state: ReservoirState) -> float:
    """The weight of the rows of the stream."""
    since = learner._since(backend, state)
    parts = [one.count for one in (state.statistics, since) if one is not None]
    return float(sum(parts))


def _renumbered(block: KeptBlock, shift: int) -> KeptBlock:
    return replace(block, numbers=block.numbers + shift)


def _of_mean_weight_one(parts: Sequence[Rows]) -> list[Rows]:
    """The rows with weights of mean one, so that a common factor does not matter."""
    if all(rows.weight is None for rows in parts):
        return list(parts)
    mean = sum(rows.total_weight() for rows in parts) / sum(map(len, parts))
    return [Rows(rows.x, rows.weights() / mean) for rows in parts]


def next_refit(n: int) -> int:
    """The number of rows at the first refit after n rows."""
    i = 0
    if n >= FIRST:
        i = int(REFITS_PER_DOUBLING * np.log2(n / FIRST)) - 1
    while (at := _refit_at(i)) <= n:
        i += 1
    return at


def _refit_at(i: int) -> int:
    doublings, rest = divmod(max(i, 0), REFITS_PER_DOUBLING)
    return round(FIRST * 2.0 ** (rest / REFITS_PER_DOUBLING)) << doublings


def is_search(n: int) -> bool:
    """Whether new candidates are tried at a refit after n rows."""
    return n <= MANY or (n % FIRST == 0 and (n // FIRST).bit_count() == 1)
