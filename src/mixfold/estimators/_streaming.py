"""Learning from streams, as all estimators of mixtures share it."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any, Self

import numpy as np

from mixfold.core.data_limits import without_limits
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.initializer import Initializer
from mixfold.core.learner import Learner
from mixfold.core.learner_capabilities import row_keeping, search_of
from mixfold.core.missing_cells import has_missing
from mixfold.core.registry import is_called
from mixfold.core.rows import Array as Floats
from mixfold.core.rows import Rows
from mixfold.core.source import Source
from mixfold.core.value import at_home, equal
from mixfold.estimators._appearing_columns import AppearingColumns
from mixfold.estimators._cells import Cells, table_of_row
from mixfold.estimators._changing_family import ChangingFamily, Given
from mixfold.estimators._column_names import named_cells
from mixfold.estimators._edge import check_rows
from mixfold.estimators._foreign import as_rows
from mixfold.estimators._labelled_data import Labelling
from mixfold.estimators._learned import Learned
from mixfold.estimators._mixture_settings import MixtureSettings
from mixfold.estimators._new_columns import ERROR, IGNORE, LEARN, names_in
from mixfold.estimators._noise import wants_noise
from mixfold.estimators._row_stream import RowStream, live_from
from mixfold.fitting.initialization import Initialization
from mixfold.fitting.loop import check_some
from mixfold.fitting.placement import placement_for
from mixfold.fitting.plan import check_served
from mixfold.fitting.snapshot import MOST, Snapshot
from mixfold.fitting.stream import Stream
from mixfold.learners.search import kinds_for
from mixfold.models.labelled import without_label_column
from mixfold.models.limits_from_data import with_model
from mixfold.models.mixture_model import MixtureBackend, MixtureModel
from mixfold.sources.array_source import ArraySource


class Streaming(AppearingColumns):
    """A mixture that can be updated with more rows."""

    noise: Any = None

    # defined by subclasses

    def _learner(self) -> Learner:
        raise AssertionError("every estimator names its learner")

    def _start(self, family: Family, learner: Learner) -> Initializer:
        raise AssertionError("every estimator names its start")

    def _kinds(
        self, family: Family, learner: Learner, start: Initializer
    ) -> tuple[Initializer, ...]:
        """The initializers that take turns."""
        varied = search_of(learner).varied_starts or wants_noise(self.noise)
        varied = varied and is_called(getattr(self, "init", None), "auto")
        return kinds_for(family) if varied else (start,)

    def _family_for(self, X: Any, sample_weight: Any, stream: bool = False) -> Family:
        """The family for the data, or for the first rows of a stream; they may have to be read."""
        return self._family()

    @property
    def _levels_grow(self) -> bool:
        """Whether values that were not seen before become levels of their columns."""
        return False

    def _given_families(self) -> Given:
        """Families of columns that the user has given, where others are chosen."""
        return {}

    def _known_family(self) -> Family:
        """The family without reading data: as given or, where it came from the data, as learned."""
        return self._family()

    def _settings(self, family: Family | None = None) -> MixtureSettings:
        """The family, learner and initializer; each call resolves them once."""
        family, learner = self._known_family() if family is None else family, self._learner()
        start = self._start(family, learner)
        kinds = self._kinds(family, learner, start)
        # a single draw of centres would often take rows that are noise
        starts = max(learner.starts, len(kinds)) if wants_noise(self.noise) else learner.starts
        initialization = Initialization(
            kinds, starts, learner.exchangeable, search_of(learner).prior_strength
        )
        settings = MixtureSettings(
            family,
            learner,
            initialization,
            self.n_components,
            self.n_threads,
            self._cells_of(family, self._allows_missing),
        )
        return settings.constrained(self.fixed, self.prior)

    def _check_parameters(self) -> None:
        raise AssertionError("every estimator checks its parameters")

    # learning more rows

    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, labels: Any = None
    ) -> Self:
        """Update the model with more rows; the first call may have any number of them.

        Labels are as in `fit`. If there are any, they must be given in the first call, or named by
        `classes`.
        """
        known = self.__dict__.get("_learned")
        with self._learning() as model:
            model._check_parameters()
            X = as_rows(X, sample_weight)
            if model.new_columns in (IGNORE, LEARN):
                model._take_in([n for n in names_in(X) if n not in (sample_weight, labels)])
            first = not model.__sklearn_is_fitted__()
            X, labelling = model._divided(X, labels, sample_weight)
            family = model._family_for(X, sample_weight, stream=True) if first else None
            named = model._labels_for(X, labelling) if first else model._known_labels(labelling)
            settings = model._settings(family).labelled(named)
            model._learn_more(settings, X, sample_weight, labelling)
        waiting = self._learned.stream.waiting is not None
        if not (waiting or self._live or (known and known.n_degenerate)):
            self._warn_of_degenerate()
        return self

    def _learn_more(
        self, settings: MixtureSettings, X: Any, sample_weight: Any, labelling: Labelling
    ) -> None:
        first = not self.__sklearn_is_fitted__()
        place = placement_for(self.engine, X)
        settings = replace(settings, cells=replace(settings.cells, grows=self._levels_grow))
        settings, source = self._opened(settings, X, sample_weight, labelling, place, reset=first)
        settings = self._with_noise(settings, source)
        if not first and self._learned.model.family.accepts_missing:
            settings = settings.for_missing()
        backend = settings.backend(source.d, place)
        learned = self._learn_blocks(settings, backend, source)
        backend, live = with_model(backend, learned.training_model), None
        if row_keeping(learned.learner).settles_late and place.is_default:
            live = live_from(learned, backend, settings.initialization)
        if live is not None:
            self._follow(learned, live)
            return
        learned = learned.settle(backend, settings.initialization)
        self._remember(
            replace(learned, stream=at_home(learned.stream)) if not place.is_default else learned
        )

    def _with_noise(self, settings: MixtureSettings, source: Source) -> MixtureSettings:
        """The settings with the box of noise: that of the first call, which the user has given."""
        if not self.__sklearn_is_fitted__():
            return settings.with_noise(self.noise, source, reads=False)
        model = self._learned.model
        return replace(settings, box=model.box) if model.has_noise else settings

    def _learn_blocks(
        self, settings: MixtureSettings, backend: MixtureBackend, source: Source
    ) -> Learned:
        """What is learned after the rows of a source, by a family that they may change."""
        learned, seen, weight = self._streaming(settings, backend), 0, 0.0
        family = ChangingFamily(settings.family, settings.cells, self._given_families())
        for block in source.blocks():
            for changes, rows in family.divided(block):
                for change in changes:
                    learned = learned.changed(change)
                    self._copies = deque[Snapshot](maxlen=MOST)  # the changed state has them
                known = settings.family_of_rows(family.family)
                check_rows(known, source.columns, rows, range(seen, seen + len(rows)))
                backend = with_model(backend, learned.training_model)
                learned = learned.advance(backend, settings.initialization, rows)
                seen, weight = seen + len(rows), weight + rows.total_weight()
        check_some(seen, weight)
        return learned

    @property
    def waits_for_rows(self) -> bool:
        """Whether there are too few rows of a stream yet for initial parameters."""
        learned = self.__dict__.get("_learned")
        return learned is None or learned.stream.waiting is not None

    def learn_many(self, X: Any) -> Self:
        """The same as `partial_fit`, under the name used by streaming libraries."""
        return self.partial_fit(X)

    def learn_one(self, x: Any, label: Any = None) -> Self:
        """Learn one row, given as an array of d numbers, or a dict or Series of columns.

        Its label may be known, as in `fit`.
        """
        with self._writing or self._lock():
            if type(x) is not np.ndarray:
                x = self._named_cells(x)
                if isinstance(x, dict) and self.new_columns != ERROR and self._has_new_columns(x):
                    self._take_in(x)
            if label is not None or self._has_labels:
                return self.partial_fit(self._as_table(x), labels=[label])
            live = self._live
            if live is None or not live.accepts(x):
                row, names = self._as_row(x)
                if row is None:
                    return self.partial_fit(table_of_row(x, names or ()))
                x = row
                live = live or self._live_for(x)
                if live is None or not live.accepts(x):
                    return self.partial_fit(ArraySource(x[None], None, names))
            if not live.bounds.contain(x):
                columns, known = getattr(self, "feature_names_in_", None), live.backend.model.family
                if self._allows_missing and not known.accepts_missing and has_missing(x):
                    return self.partial_fit(ArraySource(x[None], None, columns))
                check_rows(known, columns, Rows(x[None]), [live.n_rows])
            live.learn(x)
        return self

    def _as_row(self, x: Any) -> tuple[Floats | None, list[str] | None]:
        """The numbers of a row in the order of the columns, and the names of these.

        None takes the place of the numbers if a value is to become a level of its column.
        """
        names = getattr(self, "feature_names_in_", self.columns)
        if isinstance(x, dict):
            names, cells = self._names_of(x), self._settings().cells
            if self._levels_grow and self._has_new_level(x, replace(cells, grows=True)):
                return None, names
            x = [cells.number(name, x.get(name)) for name in names]
        return np.asarray(x, dtype=np.float64).reshape(-1), None if names is None else list(names)

    def _as_table(self, x: Any) -> Any:
        """A row as data of one row."""
        row, names = self._as_row(x)
        if row is None:
            return table_of_row(x, names or ())
        return ArraySource(row[None], None, names)

    def _named_cells(self, row: Any) -> Any:
        """A row as a dict, with the model's names of its columns, if it has names."""
        return named_cells(row, getattr(self, "feature_names_in_", self.columns))

    def _names_of(self, row: dict[str, Any]) -> list[str]:
        """The names of the columns of a row, which must be those of the model."""
        names = getattr(self, "feature_names_in_", self.columns)
        if names is None and self.__sklearn_is_fitted__():
            raise InvalidInputError(
                "the row is a dict of columns, but the model has learned from data without column "
                "names, as arrays are and frames whose names are not text: give the row as an array"
            )
        names = list(row) if names is None else list(names)
        missing = set(names) - set(row)
        extra = self.columns is None and self.new_columns == ERROR and not set(row) <= set(names)
        if extra or (missing and not self._allows_missing):
            more = ", or new_columns='learn'" if extra else ""
            raise InvalidInputError(f"the row has columns {list(row)}: {names} are needed{more}")
        return names

    def _has_new_level(self, row: dict[str, Any], cells: Cells) -> bool:
        """Whether a value of the row is to become a level of its column."""
        if not self.__sklearn_is_fitted__():
            return any(isinstance(found, str) for found in row.values())
        return any(cells.is_new(name, found) for name, found in row.items())

    def _live_for(self, x: Floats) -> RowStream | None:
        """A working copy for row-by-row learning, once the stream has started; `x` is a row."""
        if not self.__sklearn_is_fitted__() or len(x) != self.n_features_in_:
            return None
        known = self._now()
        settings = self._settings()
        if known.model.family.accepts_missing:
            settings = settings.for_missing()
        elif self._allows_missing and has_missing(x):
            return None
        names = getattr(self, "feature_names_in_", None)
        check_rows(settings.family, names, Rows(x[None]), [known.n_rows])
        settings = replace(settings, box=known.model.box) if known.model.has_noise else settings
        backend = settings.backend(self.n_features_in_)
        learned = self._streaming(settings, backend)
        live = live_from(learned, with_model(backend, learned.model), settings.initialization)
        if live is None:
            return None
        self._follow(learned, live)
        return live

    def _follow(self, learned: Learned, live: RowStream) -> None:
        """Compute fitted attributes when they are accessed."""
        here = self.__dict__.copy()  # another thread may store what evaluates rows meanwhile
        kept = {name: part for name, part in here.items() if name not in self._shows}
        kept.setdefault("_copies", deque[Snapshot](maxlen=MOST))
        kept.setdefault("_warned", list[bool]())  # whether degenerate components were reported
        self.__dict__ = kept | {"_learned": learned, "_live": live}

    def _streaming(self, settings: MixtureSettings, backend: MixtureBackend) -> Learned:
        """The learned state in the form that `partial_fit` continues from."""
        learner = settings.learner.resolve(None, backend.model.d, True)
        learner = row_keeping(learner).searching_from(settings.initialization.kinds)
        check_served(learner, backend.model)
        if not self.__sklearn_is_fitted__():
            model = without_label_column(backend.model)
            return Learned.nothing(model, learner, self._seed(), settings.labels)
        learned = self._learned if self._live is None else self._live.learned()
        given = without_label_column(backend.model).family
        for name, now, new in (
            ("n_components", learned.n_components, backend.model.k),
            ("noise", learned.model.has_noise, wants_noise(self.noise)),
            ("family", without_limits(learned.model.family), given),
            ("fixed", _known(learned.model, "constraints"), _known(backend.model, "constraints")),
            ("prior", _known(learned.model, "prior"), _known(backend.model, "prior")),
        ):
            if not equal(now, new):
                raise InvalidInputError(
                    f"{name} is {new!r}, but the model has been learned with {now!r}: "
                    "keep it, or call fit to start again"
                )
        if "_copies" in self.__dict__:
            learned = learned.with_snapshots(self._copies.copy())
        if learned.streaming:
            return learned
        if learner.can_continue_from(learned.learner) and learned.stream.state is not None:
            return replace(learned, learner=learner, streaming=True)
        backend = with_model(backend, learned.training_model)
        state = learner.init_after_fit(
            backend, learned.params, learned.n_rows, learned.weight, self._seed()
        )
        stream = Stream(None, state, [Snapshot(state, learned.n_seen, learned.n_rows)])
        return replace(learned, learner=learner, stream=stream, streaming=True)


def _known(model: MixtureModel, name: str) -> Any:
    """The constraints or the prior of a model; None if it has none."""
    return getattr(model, name, None)
