"""Online Bayesian moment matching."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mixfold.core.backend import Backend, Model
from mixfold.core.backend_capabilities import MomentMatcher, required
from mixfold.core.checks import check_count, check_kind
from mixfold.core.conjugate import Prior
from mixfold.core.learner import Info, Learner
from mixfold.core.params import Params
from mixfold.core.rows import Rows
from mixfold.core.value import replace, value
from mixfold.learners._merging import counted, learned_more
from mixfold.learners._prior import (
    check_posteriors,
    check_prior,
    mixture_of,
    no_prior,
    prior_of,
    same_for_all,
)
from mixfold.learners._scores import first_information, with_scores
from mixfold.models.bayesian_mixture import MixturePosterior
from mixfold.models.mixture_model import MixtureParams
from mixfold.models.score_information import Path, ScoreInformation, merged_information

PRIOR_ROWS = 1.5  # for which a vague prior counts


@value
class MomentMatchingState:
    """The prior, the posterior, which is `params`, and the information in scores, if known."""

    prior: MixturePosterior
    params: MixturePosterior
    rows: int
    passes: int
    n_degenerate: int
    information: ScoreInformation | None

    def check(self, model: Model) -> None:
        """Raise an error for a state that is not valid for the model."""
        check_posteriors(model, self.prior, self.params)
        if self.information is not None:
            self.information.check(model)
        for name in ("rows", "passes", "n_degenerate"):
            check_count(name, getattr(self, name))


@value
class MomentMatching(Learner[MomentMatchingState]):
    """Bayesian moment matching: a posterior distribution in one pass, without step sizes.

    After every row the exact posterior, a mixture of K products of a Dirichlet and conjugate
    distributions, is replaced by the one product with the same means of weights and parameters and
    the same variances, summed over weights and over the entries of a parameter. Use it for streams
    where uncertainty matters.

    Parameters
    ----------
    prior : Prior, posterior or None, default=None
        A `Prior`, or the `posterior_` of a model; None is a vague prior about the initial
        parameters.

    Examples
    --------
    >>> from mixfold import Mixture, datasets
    >>> model = Mixture("gaussian", 2, learner="moment-matching", random_state=0)
    >>> sorted(model.fit(datasets.load_faithful()).means_[:, 1].round(0).tolist())
    [54.0, 80.0]

    References
    ----------
    Jaini and Poupart (2016), Online and distributed learning of Gaussian mixture models by
    Bayesian moment matching.
    """

    supports_warm_start = True
    adds_levels = False  # it has no prior for them
    starts = 4
    sample_size = 2_000

    prior: Prior | MixturePosterior | None = None

    def __post_init__(self) -> None:
        check_prior(self.prior)

    @property
    def exchangeable(self) -> bool:  # type: ignore[override]
        """Whether the prior is the same for every component."""
        return same_for_all(self.prior)

    def why_unsupported(self, model: Model) -> str | None:
        return no_prior(model)

    def prior_count(self, sample: int, k: int, d: int) -> int:
        return sample

    def init(
        self, backend: Backend, params: Params, seen: int = 0, seed: int = 0
    ) -> MomentMatchingState:
        prior = prior_of(backend, params, self.prior)
        return MomentMatchingState(prior, prior, 0, 0, 0, first_information(backend, prior, seen))

    def check_state(self, model: Model, state: MomentMatchingState) -> None:
        check_kind("state", state, MomentMatchingState)
        state.check(model)

    def step(
        self, backend: Backend, state: MomentMatchingState, rows: Rows
    ) -> tuple[MomentMatchingState, list[Info]]:
        total, n, weight = 0.0, len(rows), rows.total_weight()
        while len(rows):
            most = len(rows) if state.information is None else state.information.rows_until_full
            state, log_density = self._matched(backend, state, rows.cut(0, most))
            rows, total = rows.cut(min(most, len(rows)), len(rows)), total + log_density
        return state, [Info(n, total / weight, 1.0)] if weight else []

    def _matched(
        self, backend: Backend, state: MomentMatchingState, rows: Rows
    ) -> tuple[MomentMatchingState, float]:
        """The state after rows that fill at most a tile, and their log density."""
        posterior, log_density, n_degenerate = required(backend, MomentMatcher).match(
            state.params, rows
        )
        after = replace(
            state,
            params=posterior,
            rows=state.rows + len(rows),
            n_degenerate=state.n_degenerate + n_degenerate,
        )
        return with_scores(backend, after, rows), log_density

    def path(
        self, state: MomentMatchingState, counts: Mapping[str, float]
    ) -> tuple[Path, dict[str, float]]:
        """How the estimate was reached, and variances of the posterior for known components.

        The posterior, which counts for so many rows, forgets those whose component is not certain,
        so that each moves it further. These variances are named as the intervals are.
        """
        assert state.information is not None
        rows = state.rows * state.information.mean_weight
        gains = {name: max(1.0, rows / count) for name, count in counts.items()}
        start, gain = float(state.information.start), gains["weights"]
        path = Path(start, state.rows, 1.0, lambda t: gain / (PRIOR_ROWS + t), state.rows)
        return path, gains

    def end_pass(
        self, backend: Backend, state: MomentMatchingState
    ) -> tuple[MomentMatchingState, list[Info]]:
        return replace(state, passes=state.passes + 1), []

    def finished(self, state: MomentMatchingState) -> bool:
        return state.passes > 0

    def estimate(self, backend: Backend, state: MomentMatchingState) -> MixtureParams:
        return mixture_of(backend).expected(state.params)

    def merge(
        self, backend: Backend, before: MomentMatchingState, states: Sequence[MomentMatchingState]
    ) -> MomentMatchingState:
        """Multiply the posteriors, and divide out the common one before."""
        states = learned_more(self, backend, before, states)
        if len(states) < 2:
            return states[0] if states else before
        posterior = mixture_of(backend).combine(before.params, [s.params for s in states])
        return replace(
            before,
            params=posterior,
            information=merged_information(before.information, [s.information for s in states]),
            passes=max(s.passes for s in states),
            **counted(before, states, "rows", "n_degenerate"),
        )
