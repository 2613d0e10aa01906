"""The learned state of an estimator, as a value."""

from __future__ import annotations

from collections.abc import Iterable
from operator import is_
from typing import Any, ClassVar

import numpy as np

from mixfold.backends.threads import Threads
from mixfold.core.backend import Model
from mixfold.core.capabilities import CovarianceMatrices
from mixfold.core.checks import check_count, check_kind, check_seed
from mixfold.core.errors import InvalidInputError
from mixfold.core.family_change import FamilyChange
from mixfold.core.learner import Learner
from mixfold.core.learner_capabilities import (
    ChoosesComponents,
    MonitorsDrift,
    most_components,
    row_keeping,
)
from mixfold.core.rows import Array, Rows
from mixfold.core.value import at_home, equal, field_names, replace, value
from mixfold.estimators._known_labels import KnownLabels
from mixfold.families.labelled_rows import WithLabels
from mixfold.fitting.component_order import component_order, reorder
from mixfold.fitting.history import STREAM_LIMIT, History, no_history
from mixfold.fitting.initialization import Initialization
from mixfold.fitting.plan import check_served
from mixfold.fitting.snapshot import Snapshot, joined
from mixfold.fitting.stream import Stream
from mixfold.learners.changed_family import changed_model, changed_state
from mixfold.models.bayesian_mixture import MixturePosterior
from mixfold.models.labelled import with_label_column, without_label_column
from mixfold.models.limits_from_data import limited, limited_by
from mixfold.models.mixture_model import MixtureBackend, MixtureModel, count_degenerate
from mixfold.models.noise_mixture import NoiseParams


def check_learner(learner: Any, model: Model) -> None:
    """Refuse a learner that cannot learn the model, or whose settings are not resolved."""
    check_kind("learner", learner, Learner)
    check_served(learner, model)
    if not equal(learner.resolve(None, model.d, False), learner):
        raise InvalidInputError(f"learner is {learner!r}, some of whose settings are not resolved")


def largest_first(moved: Array, names: list[Any]) -> dict[Any, float]:
    """How far the columns have moved, those that moved most first."""
    found = {name: round(float(far), 2) for name, far in zip(names, moved, strict=False)}
    return dict(sorted(found.items(), key=lambda pair: -abs(pair[1])))


@value
class Learned:
    """Model, learner, state and everything the public attributes are made from.

    `n_seen` are the rows learned with passes counted, `n_rows` without, and `n_iter` the passes
    that a fit has made.
    """

    public: ClassVar[tuple[str, ...]] = (
        "model_",
        "learner_",
        "params_",
        "weights_",
        "noise_weight_",
        "means_",
        "covariances_",
        "precisions_",
        "precisions_cholesky_",
        "loadings_",
        "noise_variance_",
        "probabilities_",
        "modes_",
        "n_seen_",
        "n_rows_",
        "n_iter_",
        "lower_bound_",
        "history_",
        "converged_",
        "n_degenerate_",
        "posterior_",
        "components_in_use_",
        "drifts_",
        "drift_columns_",
        "classes_",
        "n_components_",
        "decisions_",
    )

    model: Any
    learner: Any
    stream: Stream
    params: Any
    n_seen: int
    n_rows: int
    n_iter: int
    history: History
    converged: bool
    n_degenerate: int
    seed: int
    streaming: bool
    labels: KnownLabels | None = None

    def check(self) -> None:
        """Raise an error for an invalid state."""
        check_kind("model", self.model, MixtureModel)
        self.model.family.check_columns(self.model.d)
        self.model.check_params(self.params)
        if self.labels is not None:
            self.labels.check(self.model.k)
        check_learner(self.learner, self.training_model)
        self.stream.check(self.learner, self.training_model)
        self.history.check()
        for name in ("n_seen", "n_rows", "n_iter", "n_degenerate"):
            check_count(name, getattr(self, name))
        check_seed("seed", self.seed)

    @property
    def training_model(self) -> MixtureModel:
        """The model of the rows as they are learned, with a column of labels if there are any."""
        return with_label_column(self.model, None if self.labels is None else self.labels.allowed)

    @property
    def n_features(self) -> int:
        """Columns of the data."""
        return int(self.model.d)

    @property
    def weight(self) -> float:
        """The weight of the rows learned, passes not counted."""
        state = self.stream.state
        known = 0.0 if state is None else self.learner.weight_learned(state, self.n_rows)
        return float(known) if known > 0.0 else float(self.n_rows)

    @property
    def n_components(self) -> int:
        """The number of components that the learner was given."""
        return most_components(self.learner, self.stream.state, self.model.k)

    @property
    def posterior(self) -> MixturePosterior | None:
        """The posterior of the parameters, where the learner has one, rows that wait included."""
        state = self.stream.state
        known = state.params if state is not None and "params" in field_names(state) else None
        if not isinstance(known, MixturePosterior):
            return None
        found: MixturePosterior = self.learner.flushed(
            Threads(self.training_model, 1), state
        ).params
        return found

    @property
    def in_use(self) -> np.ndarray | None:
        """Components with at least one expected row, those with most first, of a sparse learner."""
        posterior = self.posterior if getattr(self.learner, "sparse", False) else None
        if posterior is None:
            return None
        rows = posterior.alpha - self.stream.state.prior.alpha
        order = np.argsort(-rows, kind="stable")
        return np.asarray(order[rows[order] >= 1.0])

    @property
    def lower_bound(self) -> float | None:
        """The log-likelihood or lower bound per row, for learners with one update per pass."""
        state = self.stream.state
        if self.streaming or state is None or not len(self.history):
            return None
        if not self.learner.is_reduction(state):
            return None
        bound, log_likelihood = self.history.bound[-1], self.history.log_likelihood[-1]
        return float(log_likelihood if np.isnan(bound) else bound)

    @staticmethod
    def nothing(
        model: MixtureModel, learner: Any, seed: int, labels: KnownLabels | None
    ) -> Learned:
        """The state before the first row of a stream."""
        none, history = Stream(None, None, []), no_history()
        return Learned(model, learner, none, None, 0, 0, 0, history, False, 0, seed, True, labels)

    def attributes(self, columns: Iterable[Any] | None = None) -> dict[str, Any]:
        """The public fitted attributes; `columns` are the names of the columns, if any."""
        names = [*range(self.model.d)] if columns is None else [*columns]
        shown = self.model.family.attributes(self.params.components)
        found = {
            "model_": self.model,
            "learner_": self.learner,
            "params_": self.params,
            "weights_": self.params.weights,
            **{f"{name}_": part for name, part in shown.items()},
            "n_seen_": self.n_seen,
            "n_rows_": self.n_rows,
            "n_iter_": self.n_iter,
            "history_": self.history,
            "converged_": self.converged,
            "n_degenerate_": self.n_degenerate,
            "n_components_": self.model.k,
        }
        if self.labels is not None:
            found["classes_"] = np.array(self.labels.names)
        if isinstance(self.params, NoiseParams):
            found["noise_weight_"] = self.params.noise
        for name, made in (
            ("lower_bound_", self.lower_bound),
            ("posterior_", self.posterior),
            ("components_in_use_", self.in_use),
        ):
            if made is not None:
                found[name] = made
        if isinstance(self.learner, MonitorsDrift):
            state = self.stream.state
            drifts = [] if state is None else self.learner.drifts(state)
            found["drifts_"] = np.array(drifts, dtype=np.int64)
            moves = [] if state is None else self.learner.moves(state)
            found["drift_columns_"] = [largest_first(moved, names) for moved in moves]
        if isinstance(self.learner, ChoosesComponents):
            state = self.stream.state
            found["decisions_"] = [] if state is None else self.learner.decisions(state)
        return found

    def precisions(self) -> dict[str, Any]:
        """Attributes that need a matrix inversion, computed when they are accessed."""
        family = self.model.family
        if not isinstance(family, CovarianceMatrices):
            return {}
        root = family.precision_roots(self.params.components)
        matrices = family.form == "triangular"
        square = root @ root.swapaxes(-1, -2) if matrices else np.square(root)
        return {"precisions_": square, "precisions_cholesky_": root}

    def advance(
        self, backend: MixtureBackend, initialization: Initialization, rows: Rows
    ) -> Learned:
        """The state after more rows of a stream."""
        if self.stream.state is None:
            backend = self._limited(backend, initialization, rows)
        stream, infos = self.stream.learn(backend, self.learner, initialization, self.seed, rows)
        seconds = float(self.history.time[-1]) if len(self.history) else 0.0
        history = self.history.extended(infos, seconds, STREAM_LIMIT)
        n = len(rows)
        return replace(
            self,
            model=without_label_column(backend.model),
            stream=stream,
            n_seen=self.n_seen + n,
            n_rows=self.n_rows + n,
            history=history,
        )

    def _limited(
        self, backend: MixtureBackend, initialization: Initialization, rows: Rows
    ) -> MixtureBackend:
        """The backend with limits from the first rows of the stream.

        If all initial parameters were given, learning begins with any number of rows, so the limits
        come from the parameters.
        """
        given = initialization.given
        if given is not None:
            return limited_by(backend, given)
        first = self.stream.first_rows(backend.model, self.learner, initialization, rows)
        return backend if first is None else limited(backend, lambda: first)

    def changed(self, change: FamilyChange) -> Learned:
        """The state that continues with another family; nothing that was learned is lost."""
        model = changed_model(self.model, change)
        check_served(self.learner, model)
        of_rows = change if self.labels is None else WithLabels(change)
        return replace(
            self,
            model=model,
            stream=changed_state(at_home(self.stream), self.training_model, of_rows),
            params=changed_state(self.params, self.model, change),
        )

    def ordered(self) -> Learned:
        """The state with sorted components, in its snapshots too."""
        order = component_order(self.model, self.params)
        return replace(self, stream=reorder(self.stream, order), params=reorder(self.params, order))

    def present(self) -> list[Snapshot]:
        """The snapshot from which a copy continues, in a list; empty before the initialisation."""
        state = self.stream.state
        return (
            []
            if state is None
            else [Snapshot(row_keeping(self.learner).without_rows(state), self.n_seen, self.n_rows)]
        )

    def with_snapshots(self, copies: Iterable[Snapshot]) -> Learned:
        """The state with further snapshots, from which copies have continued."""
        known = self.stream.snapshots
        snapshots = joined(known, copies) if known else known
        if len(snapshots) == len(known) and all(map(is_, snapshots, known)):
            return self
        return replace(self, stream=replace(self.stream, snapshots=snapshots))

    def settle(self, backend: MixtureBackend, initialization: Initialization) -> Learned:
        """The state with up-to-date parameters."""
        waiting, state = self.stream.waiting, self.stream.state
        if waiting is not None:
            backend = limited(backend, lambda: waiting)
        if state is None:
            params = self.stream.estimate(backend, self.learner, initialization, self.seed)
            return replace(self, params=params, n_degenerate=0, converged=False)
        state = row_keeping(self.learner).settled(backend, state)
        stream = replace(self.stream, state=state)
        params = stream.estimate(backend, self.learner, initialization, self.seed)
        model = row_keeping(self.learner).model_learned(self.training_model, state)
        assert isinstance(model, MixtureModel)
        model = without_label_column(model)
        n_degenerate = count_degenerate(model, params)
        return replace(
            self,
            model=model,
            stream=stream,
            params=params,
            n_degenerate=n_degenerate,
            converged=True,
        )
