"""EM for streams of which the number of components is not known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from mixfold.core.backend import Backend, Model
from mixfold.core.checks import check_kind, check_whole
from mixfold.core.component_decision import ComponentDecision
from mixfold.core.initializer import Initializer
from mixfold.core.learner import Info, Learner
from mixfold.core.params import Params
from mixfold.core.rows import Rows
from mixfold.core.value import replace, value
from mixfold.learners._component_choice import ComponentChoice, Fit, Step
from mixfold.learners._kept_rows import power_of_two
from mixfold.learners._merging import check_same_kind, learned_more
from mixfold.learners._split_merge_state import (
    MOST_DECISIONS,
    SplitMergeState,
    united_decisions,
    with_components,
    with_k,
    with_latest_rows,
)
from mixfold.learners.neighbouring_starts import one_component
from mixfold.learners.reservoir_em import ReservoirEM
from mixfold.models.limits_from_data import with_limits, with_model
from mixfold.models.mixture_model import MixtureBackend, MixtureModel, MixtureParams

# rows between two decisions: so many at least and at most, and this part of all rows
FEWEST, MOST, PART = 64, 2**15, 4
PART_OF_RECENT = 8  # and this part of the recent rows, if only those count
AGAIN = 1.5  # times as many rows as at the last search for new candidates


@value
class SplitMergeEM(Learner[SplitMergeState]):
    """EM on a stream that splits, merges and removes components as long as BIC falls.

    `n_components` is the largest number of components; learning begins with one, or with the
    parameters that were given. After 64 rows, and whenever there are a fourth more, but at least 64
    and at most 32,768, the components that are expected to gain most are split, and those that are
    expected to lose least are merged or removed, each followed by EM. A change is kept if the
    log-likelihood gains more, or loses less, than BIC's penalty changes:

        log L' - log L > (p' - p) / 2 log n,

    with p free parameters, or if fewer components are degenerate on few rows, as their likelihood
    is not bounded. This is repeated until no change is kept. Whenever the number of rows has grown
    by a half, up to three splits together are tried too, components are split and merged without
    changing their number, and new candidates are drawn as in `fit`. Between decisions, rows are
    learned as by `ReservoirEM`. Decisions depend on the rows alone, not on blocks or reads.
    `decisions_` of the estimator lists them, and `n_components_` is the current number.
    Use it for streams of which the number of clusters is not known, or changes.

    Parameters
    ----------
    memory_budget : int, default=67108864
        The number of bytes for kept rows; at least 512 rows are kept in any case.
    sample_size : int, default=20000
        The number of kept rows by which decisions are judged, which is n of BIC; with more rows, it
        is a uniform sample of them.
    recent_rows : int or None, default=None
        The number of most recent rows that count, at most as many as fit into the memory. Clusters
        of which no more rows come then disappear. None is all rows.
    init_from : tuple of initializers, default=()
        The initializers of new candidates; by default those of the estimator. Without any, as with
        parameters that were given, none are drawn.

    Examples
    --------
    >>> from mixfold import Mixture, datasets
    >>> model = Mixture("gaussian", 9, learner="split-merge-em", random_state=0)
    >>> for rows in datasets.load_faithful().reshape(-1, 16, 2):
    ...     model = model.partial_fit(rows)
    >>> model.n_components_, sorted(model.means_[:, 1].round(1).tolist())
    (2, [54.5, 80.0])

    References
    ----------
    Schwarz (1978), Estimating the dimension of a model; Ueda, Nakano, Ghahramani and Hinton (2000),
    SMEM algorithm for mixture models, whose moves leave the number of components as it is.
    """

    supports_warm_start = True
    settles_late = True
    exchangeable = False  # decisions have the numbers of components
    starts = 1
    varied_starts: ClassVar[bool] = True
    prior_strength: ClassVar[float] = 0.0  # BIC is that of the maximum likelihood

    memory_budget: int = 2**26
    sample_size: int = 20_000
    recent_rows: int | None = None
    init_from: tuple[Initializer, ...] = ()

    def __post_init__(self) -> None:
        for name in ("memory_budget", "sample_size"):
            check_whole(name, getattr(self, name))
        if self.recent_rows is not None:
            check_whole("recent_rows", self.recent_rows, FEWEST)

    @property
    def searches_later(self) -> bool:
        """Whether the state searches for better parameters than those it began with."""
        return self._reservoir(1).searches_later

    def searching_from(self, kinds: tuple[Initializer, ...]) -> Learner:
        """The learner that draws its candidates with these initializers."""
        found: Any = self._reservoir(1).searching_from(kinds)
        return replace(self, init_from=found.init_from)

    def why_unsupported(self, model: Model) -> str | None:
        if isinstance(model, MixtureModel) and model.is_exchangeable:
            return None
        if isinstance(model, MixtureModel):
            return (
                "learner is SplitMergeEM, which splits, merges and removes components, and labels, "
                "fixed parameters or a prior of every component belong to some of them: use "
                "'online-em', or leave these out"
            )
        return f"learner is SplitMergeEM, which learns mixtures, not {model!r}: use 'online-em'"

    def init(
        self, backend: Backend[Any], params: Params, seen: int = 0, seed: int = 0
    ) -> SplitMergeState:
        assert isinstance(params, MixtureParams)
        first = one_component(backend.model, params) if self.init_from else params
        return self._from(backend, first, seed)

    def init_after_fit(
        self, backend: Backend[Any], params: Params, rows: int, weight: float, seed: int = 0
    ) -> SplitMergeState:
        """The state with the components of a fit, whose number is judged by later rows alone."""
        assert isinstance(params, MixtureParams)
        return self._from(backend, params, seed)

    def _from(self, backend: MixtureBackend, params: MixtureParams, seed: int) -> SplitMergeState:
        bound = with_model(backend, with_k(backend.model, len(params.weights)))
        inner = self._reservoir(len(params.weights)).init(bound, params, seed=seed)
        return SplitMergeState(inner, backend.model.k, 0, 0, [])

    def check_state(self, model: Model, state: SplitMergeState) -> None:
        check_kind("state", state, SplitMergeState)
        state.check(model)

    # the learner of the rows between decisions

    def _reservoir(self, k: int) -> ReservoirEM:
        """The learner of the current components: searches are made by decisions."""
        return ReservoirEM(
            self.memory_budget,
            sample_size=self.sample_size,
            prior_strength=self.prior_strength,
            init_from=self.init_from if k == 1 else (),
        )

    def _bound(self, backend: MixtureBackend, state: SplitMergeState) -> MixtureBackend:
        """The backend with the current number of components."""
        return with_model(backend, with_k(backend.model, state.k))

    def model_learned(self, model: Model, state: SplitMergeState) -> Model:
        """The model with the current number of components, and the limits that were learned."""
        return self._reservoir(state.k).model_learned(with_k(model, state.k), state.inner)

    def most_components(self, state: SplitMergeState) -> int:
        """The largest number of components."""
        return state.most

    def decisions(self, state: SplitMergeState) -> list[ComponentDecision]:
        """The decisions, of which the last thousand are kept."""
        return list(state.decisions)

    def weight_learned(self, state: SplitMergeState, rows: int) -> float:
        return self._reservoir(state.k).weight_learned(state.inner, rows)

    def rows_to_start(self, k: int, d: int) -> int:
        """One row: learning begins with one component."""
        return 1

    def settled(self, backend: Backend[Any], state: SplitMergeState) -> SplitMergeState:
        """The state with the fit to the kept rows, if all are kept, from which reads continue."""
        bound = self._bound(backend, state)
        return replace(state, inner=self._reservoir(state.k).settled(bound, state.inner))

    def estimate(self, backend: Backend[Any], state: SplitMergeState) -> Any:
        return self._reservoir(state.k).estimate(self._bound(backend, state), state.inner)

    def rows_until_change(self, model: Model, state: SplitMergeState) -> int:
        """How many more rows change the parameters, or lead to a decision."""
        inner = self._reservoir(state.k).rows_until_change(with_k(model, state.k), state.inner)
        return min(inner, self._next_decision(model, state) - state.rows)

    def without_rows(self, state: SplitMergeState) -> SplitMergeState:
        """The state without the rows that it keeps."""
        return replace(state, inner=self._reservoir(state.k).without_rows(state.inner))

    # learning

    def step(
        self, backend: Backend[Any], state: SplitMergeState, rows: Rows
    ) -> tuple[SplitMergeState, list[Info]]:
        infos: list[Info] = []
        while len(rows):
            wanted = self._next_decision(backend.model, state)
            some = rows.cut(0, wanted - state.rows)
            rows = rows.cut(len(some), len(rows))
            bound, learner = self._bound(backend, state), self._reservoir(state.k)
            state = replace(state, inner=learner.step(bound, state.inner, some)[0])
            if state.rows == wanted:
                state, more = self._decided(backend, state)
                infos += more
        return state, infos

    def end_pass(
        self, backend: Backend[Any], state: SplitMergeState
    ) -> tuple[SplitMergeState, list[Info]]:
        infos: list[Info] = []
        if state.rows > state.decided:
            state, infos = self._decided(backend, state)
        return replace(state, passes=state.passes + 1), infos

    def finished(self, state: SplitMergeState) -> bool:
        return state.passes >= 1

    def _next_decision(self, model: Model, state: SplitMergeState) -> int:
        """The number of rows at which the number of components is judged next."""
        length = min(max(FEWEST, state.decided // PART), MOST)
        if self.recent_rows is not None:
            length = min(length, max(FEWEST, self._recent(model) // PART_OF_RECENT))
        return state.decided + length

    def _recent(self, model: Model) -> int:
        """The number of recent rows that count."""
        fit = power_of_two(ReservoirEM(self.memory_budget).most_rows(model.d)) // 2
        return fit if self.recent_rows is None else min(self.recent_rows, fit)

    def _decided(
        self, backend: MixtureBackend, state: SplitMergeState
    ) -> tuple[SplitMergeState, list[Info]]:
        """The state after the number of components was judged by the kept rows."""
        rows, n = state.rows, state.rows - state.decided
        bound, inner = self._bound(backend, state), state.inner
        if self.recent_rows is not None:
            inner = with_latest_rows(bound, inner, self._recent(backend.model))
        state = replace(state, inner=inner, decided=rows)
        if not len(inner.kept):
            return state, []
        choice = self._choice(bound, state)
        anew = rows >= AGAIN * state.searched
        mixture = inner.mixture
        fit, steps = choice.searched(mixture, self.init_from) if anew else choice.chosen(mixture)
        if steps or inner.statistics is None:
            inner = with_components(bound, fit.backend, inner, fit.params)
        decisions = [_decision(rows, choice.n, step) for step in steps]
        after = replace(
            state,
            inner=inner,
            searched=rows if anew else state.searched,
            decisions=[*state.decisions, *decisions][-MOST_DECISIONS:],
        )
        return after, [Info(n, fit.log_likelihood / choice.n, n / rows)]

    def _choice(self, backend: MixtureBackend, state: SplitMergeState) -> ComponentChoice:
        """The choice of the number of components by a sample of the kept rows."""
        sample = state.inner.kept.sample(self.sample_size)
        family = with_limits(backend.model.family, sample)
        limited = with_model(backend, replace(backend.model, family=family))
        return ComponentChoice(limited, sample, state.most, self.prior_strength, state.inner.seed)

    # copies and merging

    def branch(self, model: Model, state: SplitMergeState, number: int, of: int) -> SplitMergeState:
        inner = self._reservoir(state.k).branch(model, state.inner, number, of)
        return replace(state, inner=inner)

    def merge(
        self, backend: Backend[Any], before: SplitMergeState, states: Sequence[SplitMergeState]
    ) -> SplitMergeState:
        """Unite the kept rows, and judge the components of the state that describes them best."""
        check_same_kind(before, states)
        seed = before.inner.seed
        own = [replace(state, inner=replace(state.inner, seed=seed)) for state in states]
        moved = learned_more(self, backend, before, own)
        if not moved:
            return own[0] if own else before
        return moved[0] if len(moved) == 1 else self._united(backend, before, moved)

    def _united(
        self, backend: MixtureBackend, before: SplitMergeState, states: Sequence[SplitMergeState]
    ) -> SplitMergeState:
        best = self._best_of(backend, before, states)
        after, params = best.backend, best.params
        alike = [
            with_components(self._bound(backend, one), after, one.inner, params)
            for one in (before, *states)
        ]
        learner = self._reservoir(after.model.k)
        inner = learner.merge(after, alike[0], alike[1:])
        together = replace(
            before,
            inner=inner,
            decided=max(state.decided for state in states),
            searched=max(state.searched for state in states),
            decisions=united_decisions(before, states),
        )
        return self._decided(backend, together)[0]

    def _best_of(
        self, backend: MixtureBackend, before: SplitMergeState, states: Sequence[SplitMergeState]
    ) -> Fit:
        """The parameters that BIC prefers on the rows of all states."""
        kept = states[0].inner.kept.joined(
            [block for one in states[1:] for block in one.inner.kept.since(before.rows)]
        )
        inner = replace(states[0].inner, kept=kept)
        choice = self._choice(self._bound(backend, states[0]), replace(states[0], inner=inner))
        fits = [choice.judged(self._bound(backend, one), one.inner.mixture) for one in states]
        best = fits[0]
        for fit in fits[1:]:
            best = fit if fit.beats(best) else best
        return best


def _decision(rows: int, n: float, step: Step) -> ComponentDecision:
    """The record of a step."""
    before, after = step.before, step.after
    return ComponentDecision(
        rows,
        step.kind,
        step.components,
        after.backend.model.k,
        n,
        after.log_likelihood - before.log_likelihood,
        after.penalty - before.penalty,
    )
