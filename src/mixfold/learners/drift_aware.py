"""Restarting a learner when the stream has changed."""

from __future__ import annotations

from typing import Any, Generic, cast

import numpy as np

from mixfold.core.backend import Backend, Model
from mixfold.core.checks import check_array, check_count, check_kind, check_whole
from mixfold.core.detector import LARGEST_NUMBER, Detector
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.initializer import Initializer
from mixfold.core.learner import Info, Learner
from mixfold.core.learner_capabilities import for_one_pass, row_keeping
from mixfold.core.params import DetectorStateT, LearnerState, Params, StateT
from mixfold.core.registry import make_fields
from mixfold.core.rows import Array, Rows, join, no_rows
from mixfold.core.value import replace, value
from mixfold.detectors.river_detector import as_detector, same_kind
from mixfold.detectors.self_starting_cusum import SelfStartingCusum
from mixfold.learners._recent_rows import (
    RecentFits,
    after_drift,
    append,
    compare,
    fit_for_read,
    no_fits,
)
from mixfold.learners._window_monitor import WindowMonitor, no_windows
from mixfold.learners.online_em import OnlineEM
from mixfold.models.mixture_model import MixtureBackend, MixtureModel


@value
class DriftAwareState(Generic[StateT, DetectorStateT]):
    """The state of the learner, and the current window.

    `window` holds the rows of the current window, and `before` the parameters at its beginning.
    `monitor` compares windows with a reference, and `detected` is the state of a detector of
    log-likelihoods. `drifts` are the numbers of rows after which the learner was restarted, and
    `moved` how far every column had moved by then. Only the first of several `passes` is monitored,
    since later ones begin with rows from before the drift. `recent` are the fits to the most recent
    rows.
    """

    inner: StateT
    before: Params | None
    window: Rows
    detected: DetectorStateT
    rows: int
    drifts: list[int]
    moved: list[Array]
    monitor: WindowMonitor
    recent: RecentFits
    passes: int = 0

    def check(self, model: Model) -> None:
        """Raise an error for a state that is not valid for the model."""
        model.check_rows(self.window)
        self.recent.check(model)
        if len(self.window):
            model.check_params(self.before)
        for number in (self.rows, self.passes, *self.drifts):
            check_count("rows, passes or drifts", number)
        if len(self.moved) != len(self.drifts):
            raise InvalidInputError(f"moved has {len(self.moved)} of {len(self.drifts)} drifts")
        for moved in self.moved:
            check_array("moved", moved, np.shape(moved), -LARGEST_NUMBER, LARGEST_NUMBER)

    @property
    def params(self) -> Params:
        """Parameters being trained."""
        return self.inner.params

    @property
    def n_degenerate(self) -> int:
        """Degenerate components."""
        return int(self.inner.n_degenerate)


@value
class DriftAware(Learner[DriftAwareState]):
    """Restarts another learner when a stream changes, and fits the most recent rows beside it.

    Every `window` rows are compared with a reference, parameters of some time ago: the means of the
    residuals of all columns, of their absolute values and of the log density, and the weights. When
    the `detector` finds that one of them has changed, online EM takes large steps again, and
    annealed gradients are annealed again. `drifts_` of the estimator lists the rows after which
    this happened, and `drift_columns_` how far each column had moved. Use it for streams that
    change.

    For changes that are slow, or come and go, EM is also fitted to the last `recent_rows` rows, and
    to the last half of them or those since the last drift, again whenever an eighth of the rows
    are new. The estimate is the one of the three under which the rows of the last few windows had
    the highest log-likelihood before they were learned; one row counts for at most 10 nats. If it
    is one of the fits, that is made anew when parameters are read, with all of its rows and as
    `Auto` makes it, unless fewer than an eighth of them are new since the last time. Limits of
    variances come from the rows that are fitted.

    Parameters
    ----------
    learner : learner or str, default=OnlineEM()
        The learner that is restarted.
    detector : detector or str, default=SelfStartingCusum()
        The detector of changes. `SelfStartingCusum` has a stated rate of false alarms. Others, and
        those of `river.drift`, are given one number for each window.
    window : int, default=128
        Rows whose means are compared together.
    recent_rows : int, default=8192
        The number of most recent rows that are kept. 0 keeps none, so the estimate is that of the
        learner. Learners whose components are not exchangeable, such as `AnnealedSGD`, keep none.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold import Mixture
    >>> rng = np.random.default_rng(0)
    >>> x = np.concatenate([rng.normal(0.0, 1.0, (20_000, 2)), rng.normal(3.0, 1.0, (20_000, 2))])
    >>> model = Mixture(n_components=2, learner="drift-aware", random_state=0)
    >>> model.partial_fit(x).drifts_
    array([20224])
    >>> model.drift_columns_
    [{1: 3.06, 0: 2.93}]
    """

    learner: Learner = OnlineEM()
    detector: Detector = SelfStartingCusum()
    window: int = 128
    recent_rows: int = 8192

    def __post_init__(self) -> None:
        make_fields(self, "learner", "detector")
        if not isinstance(self.learner, Learner) or not hasattr(self.learner, "restart"):
            raise InvalidInputError(
                f"learner is {self.learner!r}, which cannot be restarted: use e.g. OnlineEM()"
            )
        if self.learner.order(False) != "stream":
            raise InvalidInputError(
                f"learner is {self.learner!r}, which shuffles rows, and drift is a matter of their "
                "order: use sampling='stream'"
            )
        object.__setattr__(self, "detector", as_detector(self.detector))
        check_whole("window", self.window)
        check_whole("recent_rows", self.recent_rows, 0)

    @property
    def starts(self) -> int:  # type: ignore[override]
        """The number of candidates for the initial parameters."""
        return int(self.learner.starts)

    @property
    def sample_size(self) -> int:  # type: ignore[override]
        """The number of rows from which initial parameters are drawn."""
        return int(self.learner.sample_size)

    @property
    def adds_levels(self) -> bool:  # type: ignore[override]
        """Whether the learner can continue with more levels."""
        return bool(self.learner.adds_levels)

    @property
    def exchangeable(self) -> bool:  # type: ignore[override]
        """Whether components may be put into any order."""
        return bool(self.learner.exchangeable)

    @property
    def settles_late(self) -> bool:
        """Whether parameters are computed when they are asked for."""
        keeps_recent = self.recent_rows > 0 and self.exchangeable
        return keeps_recent or row_keeping(self.learner).settles_late

    @property
    def searches_later(self) -> bool:
        """Whether the learner searches for better parameters than those it began with."""
        return row_keeping(self.learner).searches_later

    def default_initializer(self, family: Family) -> str | None:
        return self.learner.default_initializer(family)

    @property
    def max_iter(self) -> int | None:
        """The largest number of passes of the learner."""
        return getattr(self.learner, "max_iter", None)

    def can_continue_from(self, other: Learner) -> bool:
        if not isinstance(other, DriftAware) or not same_kind(other.detector, self.detector):
            return False
        if type(other.learner) is not type(self.learner):
            return False
        return not self.learner.supports_warm_start or bool(
            self.learner.can_continue_from(other.learner)
        )

    def why_unsupported(self, model: Model) -> str | None:
        return self.learner.why_unsupported(model)

    def warnings(self, model: Model, rows: Rows) -> list[str]:
        return list(self.learner.warnings(model, rows))

    def bounded(self, family: Family) -> Family:
        return self.learner.bounded(family)

    def resolve(self, n: int | None, d: int, streaming: bool) -> Learner:
        return replace(self, learner=self.learner.resolve(n, d, streaming))

    def for_one_pass(self) -> Learner:
        """The learner for a source that can be read only once."""
        return replace(self, learner=for_one_pass(self.learner))

    def searching_from(self, kinds: tuple[Initializer, ...]) -> Learner:
        """The learner that draws its candidates with these initializers."""
        return replace(self, learner=row_keeping(self.learner).searching_from(kinds))

    @property
    def counts_prior(self) -> bool:  # type: ignore[override]
        """Whether M-steps are made from statistics of all rows."""
        return bool(self.learner.counts_prior)

    def rows_to_start(self, k: int, d: int) -> int:
        """The number of rows of a stream from which initial parameters are drawn."""
        return row_keeping(self.learner).rows_to_start(k, d)

    def prior_count(self, sample: int, k: int, d: int) -> int:
        return int(self.learner.prior_count(sample, k, d))

    def init(
        self, backend: Backend, params: Params, seen: int = 0, seed: int = 0
    ) -> DriftAwareState:
        inner = self.learner.init(backend, params, seen, seed)
        nothing = no_rows(backend.model.d)
        fits = no_fits(backend.model.d, seed)
        begun, monitor = self.detector.init(), no_windows()
        return DriftAwareState(inner, None, nothing, begun, 0, [], [], monitor, fits)

    def init_after_fit(
        self, backend: Backend, params: Params, rows: int, weight: float, seed: int = 0
    ) -> DriftAwareState:
        inner = self.learner.init_after_fit(backend, params, rows, weight, seed)
        return replace(self.init(backend, params, rows, seed), inner=inner)

    def weight_learned(self, state: DriftAwareState, rows: int) -> float:
        return float(self.learner.weight_learned(state.inner, rows))

    def check_state(self, model: Model, state: DriftAwareState) -> None:
        check_kind("state", state, DriftAwareState)
        state.check(model)
        self.learner.check_state(model, state.inner)
        self.detector.check_state(state.detected)
        state.monitor.check(model, self.detector)

    def step(
        self, backend: Backend, state: DriftAwareState, rows: Rows
    ) -> tuple[DriftAwareState, list[Info]]:
        if state.passes:
            inner, infos = self.learner.step(backend, state.inner, rows)
            return replace(state, inner=inner, rows=state.rows + len(rows)), infos
        infos = []
        while len(rows):
            room = max(1, self.window - len(state.window))
            some, rows = rows.cut(0, room), rows.cut(room, len(rows))
            inner, more = self.learner.step(backend, state.inner, some)
            state = self.monitored(backend, state, inner, some)
            infos += more
        return state, infos

    def drifts(self, state: DriftAwareState) -> list[int]:
        """Numbers of the rows at which the inner learner was restarted."""
        return list(state.drifts)

    def moves(self, state: DriftAwareState) -> list[Array]:
        """How far every column had moved by then, in deviations; empty where that is not known."""
        return list(state.moved)

    def monitored(
        self, backend: Backend, state: DriftAwareState, inner: LearnerState, rows: Rows
    ) -> DriftAwareState:
        """The state after rows of one window, of which `inner` is the new state of the learner."""
        first = not len(state.window)
        after = replace(
            state,
            inner=inner,
            before=self.learner.estimate(backend, state.inner) if first else state.before,
            window=rows.copy() if first else join([state.window, rows]),
            rows=state.rows + len(rows),
        )
        return after if len(after.window) < self.window else self._after_window(backend, after)

    def _after_window(self, backend: Backend, state: DriftAwareState) -> DriftAwareState:
        """The state after the detector was updated with a complete window."""
        window, before = state.window, state.before
        state = self._with_inner_settled(backend, self._between(backend, state, state.inner))
        weight = window.total_weight()
        if not weight > 0.0:
            return state
        log_density = backend.posterior(before, window, False)[0]
        mixture = self._mixture(backend)
        if mixture is not None:
            recent = compare(mixture, state.recent, window, log_density)
            state = replace(state, recent=recent)
        state = self._monitored(backend, state, before, window, log_density)
        return self._with_recent(backend, state, window)

    def _monitored(
        self, backend: Backend, state: DriftAwareState, before: Params, window: Rows, known: Array
    ) -> DriftAwareState:
        """The state after the detector was given a window, of `known` log densities."""
        monitor = state.monitor.step(backend, self.detector, before, window)
        state = replace(state, monitor=monitor)
        if self.detector.reads == "log-likelihood":
            mean = float(window.weights() @ known) / window.total_weight()
            state = replace(state, detected=self.detector.step(state.detected, mean))
        if not (state.detected.drift_detected or monitor.drift_detected):
            return state
        return replace(
            state,
            inner=self.learner.restart(backend, state.inner),  # type: ignore[attr-defined]
            drifts=[*state.drifts, state.rows],
            moved=[*state.moved, monitor.moved(backend, window)],
            monitor=no_windows(),
            recent=after_drift(state.recent, monitor.since * len(window)),
        )

    def _mixture(self, backend: Backend) -> MixtureBackend | None:
        """The backend if recent rows are fitted."""
        fitted = self.recent_rows > 0 and self.exchangeable
        mixture = isinstance(backend.model, MixtureModel) and backend.model.is_exchangeable
        return cast(MixtureBackend, backend) if fitted and mixture else None

    def _with_recent(
        self, backend: Backend, state: DriftAwareState, window: Rows
    ) -> DriftAwareState:
        """The state after a window was added to the recent rows."""
        mixture = self._mixture(backend)
        if mixture is None:
            return state
        inner = self.learner.estimate(backend, state.inner)
        recent = append(mixture, state.recent, window, inner, self.recent_rows)
        return replace(state, recent=recent)

    def end_pass(
        self, backend: Backend, state: DriftAwareState
    ) -> tuple[DriftAwareState, list[Info]]:
        inner, infos = self.learner.end_pass(backend, state.inner)
        if state.passes:  # the fits are as old as the first pass
            state = replace(state, recent=no_fits(backend.model.d, state.recent.seed))
        return replace(self._between(backend, state, inner), passes=state.passes + 1), infos

    def _between(
        self, backend: Backend, state: DriftAwareState, inner: LearnerState
    ) -> DriftAwareState:
        """The state without a window: the next one begins with the next row."""
        return replace(state, inner=inner, before=None, window=no_rows(backend.model.d))

    def flushed(self, backend: Backend, state: DriftAwareState) -> DriftAwareState:
        return self.flush(backend, state)[0]

    def flush(self, backend: Backend, state: DriftAwareState) -> tuple[DriftAwareState, list[Info]]:
        inner, infos = self.learner.flush(backend, state.inner)
        return self._between(backend, state, inner), infos

    def finished(self, state: DriftAwareState) -> bool:
        return bool(self.learner.finished(state.inner))

    def converged(self, state: DriftAwareState) -> bool:
        return bool(self.learner.converged(state.inner))

    def model_learned(self, model: Model, state: DriftAwareState) -> Model:
        """The model with the limits that the state has learned."""
        return row_keeping(self.learner).model_learned(model, state.inner)

    def settled(self, backend: Backend, state: DriftAwareState) -> DriftAwareState:
        """The state with what its estimate needs computed: a fit to the latest rows, if chosen."""
        state, mixture = self._with_inner_settled(backend, state), self._mixture(backend)
        if mixture is None:
            return state
        return replace(state, recent=fit_for_read(mixture, state.recent, self.recent_rows))

    def _with_inner_settled(self, backend: Backend, state: DriftAwareState) -> DriftAwareState:
        return replace(state, inner=row_keeping(self.learner).settled(backend, state.inner))

    def rows_until_change(self, model: Model, state: DriftAwareState) -> int:
        """Every row changes the estimate."""
        return 1

    def without_rows(self, state: DriftAwareState) -> DriftAwareState:
        """The state without the rows that it keeps."""
        return replace(state, inner=row_keeping(self.learner).without_rows(state.inner))

    def compact(self, state: DriftAwareState) -> DriftAwareState:
        """The state for more rows, which are monitored again."""
        inner = self.learner.compact(state.inner)
        if state.passes > 1:
            state = replace(state, detected=self.detector.init(), monitor=no_windows())
        return replace(state, inner=inner, passes=0)

    def estimate(self, backend: Backend, state: DriftAwareState) -> Any:
        return state.recent.estimate(self.learner.estimate(backend, state.inner))
