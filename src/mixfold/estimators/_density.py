"""What the estimators share: learning, from data and from streams."""

from __future__ import annotations

from collections import deque
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mixfold.core.data_limits import without_limits
from mixfold.core.engine import Engine
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.initializer import Initializer
from mixfold.core.learner import Learner
from mixfold.core.rows import Array as Floats
from mixfold.core.rows import Rows
from mixfold.core.source import Source
from mixfold.core.value import at_home, equal, is_value
from mixfold.estimators._absent import why_absent
from mixfold.estimators._edge import check_rows, open_data
from mixfold.estimators._evaluation import Evaluation
from mixfold.estimators._learned import Learned
from mixfold.estimators._limits import limited, warn_of_degenerate, with_model
from mixfold.estimators._mixture_settings import MixtureSettings
from mixfold.estimators._row_stream import RowStream, is_in_range, live_from
from mixfold.fitting.atomic_files import check_output
from mixfold.fitting.checkpoint import Checkpoint, check_checkpoint
from mixfold.fitting.fit import Fit
from mixfold.fitting.identity import DATA, LEARNER, MODEL, is_forced
from mixfold.fitting.initialization import Initialization, Sample, SampledStarts
from mixfold.fitting.loop import Loop, check_some
from mixfold.fitting.placement import Placement, engine_for, placement_for
from mixfold.fitting.plan import FitPlan, Starts, check_served
from mixfold.fitting.progress import Lines, Progress, Silent
from mixfold.fitting.sharded_pass import ShardedPass
from mixfold.fitting.snapshot import MOST, Snapshot
from mixfold.fitting.stream import Stream
from mixfold.models.mixture_model import MixtureBackend, MixtureModel, count_degenerate
from mixfold.sources.array import Array


class Density(Evaluation):
    """A mixture that learns from arrays, tables, files and streams."""

    n_components: int
    n_init: int
    verbose: int
    columns: Any = None
    checkpoint: Any = None
    checkpoint_every: float = 30.0
    resume: Any = False
    cluster: str | None = None
    progress: Progress | None = None  # where a front end wants progress shown

    # what subclasses say

    def _family(self) -> Family:
        raise AssertionError("every estimator names its family")

    def _learner(self) -> Learner:
        raise AssertionError("every estimator names its learner")

    def _start(self, family: Family, learner: Learner) -> Initializer:
        raise AssertionError("every estimator names its start")

    def _settings(self) -> MixtureSettings:
        """What the parameters stand for; a call asks for it once."""
        family, learner = self._family(), self._learner()
        start = self._start(family, learner)
        initialization = Initialization(start, learner.starts, learner.exchangeable)
        return MixtureSettings(family, learner, initialization, self.n_components, self.n_threads)

    def _check_parameters(self) -> None:
        raise AssertionError("every estimator checks its parameters")

    _least_rows = 1
    _ordered = True  # whether a fit ends with components in order
    _learns: ClassVar[type] = Learned
    _shows: tuple[str, ...] = Learned.public
    _live: RowStream | None = None  # what learns rows one by one

    # learning

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from scratch.

        Parameters
        ----------
        X : array, table, path, list of paths, glob, address, `CsvFiles`, lazy frame, or blocks
            Rows to learn from.
        y : ignored
        sample_weight : array of n weights, or for tables and files the name of a column
        """
        with self._learning() as model:
            model._check_parameters()
            settings = model._settings()
            model._check_outputs(settings.learner)
            place = placement_for(model.engine, X)
            source = open_data(
                model,
                X,
                sample_weight,
                model.columns,
                reset=True,
                least_rows=model._least_rows,
                device=place.tensor_device,
                missing=settings.family.accepts_missing,
            )
            model._learn(settings, source, place)
        self._warn_of_degenerate()
        return self

    def _warn_of_degenerate(self) -> None:
        learned, columns = self._learned, getattr(self, "feature_names_in_", None)
        warn_of_degenerate(learned.model, learned.params, columns)

    def _check_outputs(self, learner: Learner) -> None:
        """Refuse files that cannot be written before there is anything to write."""
        if self.checkpoint is not None:
            check_checkpoint(self.checkpoint)
        memory = getattr(learner, "memory", None)
        if memory is not None:
            check_output(Path(memory), special=False)

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Learn from scratch, then label the same rows."""
        return self.fit(X, y, sample_weight).predict(X)

    def _learn(self, settings: MixtureSettings, source: Source, place: Placement) -> None:
        with engine_for(self.cluster, source, place) as engine:
            plan = self._plan(settings, source, settings.backend(source.d, place), engine)
            plan.backend.run_resident(lambda rows: self._run(replace(plan, source=rows)), source)

    def _plan(
        self,
        settings: MixtureSettings,
        source: Source,
        backend: MixtureBackend,
        engine: Engine | None,
    ) -> FitPlan:
        learner, check = (
            settings.learner.resolve(source.length, source.d, False),
            settings.check(source),
        )
        passing = None
        if engine is not None:
            passing = ShardedPass(engine, backend.model, learner, source, check)
        start = settings.initialization.start
        checkpoint = self._checkpoint(backend, learner, source, passing, start)
        saved = checkpoint.read() if checkpoint and self.resume else None
        resumed = self._resumed(backend, learner, saved)
        seed = resumed.seed if resumed else self._seed()
        sample = settings.sample(backend, source, self.n_init, seed)
        backend = limited(backend, sample.rows)
        if passing is not None:
            passing.model = backend.model
        return FitPlan(
            backend,
            learner,
            source,
            self._starts(settings, backend, sample, seed),
            seed=seed,
            prior_count=learner.prior_count(sample.drawing.size, self.n_components, source.d),
            passes=self._most_passes(),
            check=check,
            passing=passing,
            checkpoint=checkpoint,
            resumed=resumed,
            progress=self._progress(),
        )

    def _run(self, plan: FitPlan) -> None:
        loop = Loop(plan)
        try:
            loop.run()
        finally:
            if loop.fit.state is not None:
                self._remember_fit(plan, loop.fit)

    def _starts(
        self, settings: MixtureSettings, backend: MixtureBackend, sample: Sample, seed: int
    ) -> Starts:
        return SampledStarts(backend, sample)

    def _resumed(self, backend: MixtureBackend, learner: Learner, saved: Fit | None) -> Fit | None:
        """Where to go on from, if not from the beginning."""
        return saved

    def _checkpoint(
        self,
        backend: MixtureBackend,
        learner: Learner,
        source: Source,
        passing: ShardedPass | None,
        start: Initializer,
    ) -> Checkpoint | None:
        force = is_forced(self.resume)
        if self.checkpoint is None:
            if self.resume:
                raise InvalidInputError("resume=True needs checkpoint=PATH to resume from")
            return None
        seed = self.random_state if isinstance(self.random_state, int) else None
        identity = {
            "the number of columns": source.d,
            "the list of columns": self._columns(source),
            "the number of rows": source.length,
            "the number of partitions": None if passing is None else len(passing.partitions),
            DATA: source.fingerprint(),
            MODEL: backend.model,
            LEARNER: learner,
            "init": start if is_value(start) else type(start).__name__,
            "n_init": self.n_init,
            "random_state": seed,
        }
        return Checkpoint(self.checkpoint, identity, self.checkpoint_every, force)

    def _columns(self, source: Source) -> list[str] | None:
        return None if source.columns is None else [str(name) for name in source.columns]

    def _progress(self) -> Progress:
        if self.progress is not None:
            return self.progress
        return Lines() if self.verbose else Silent()

    def _remember_fit(self, plan: FitPlan, fit: Fit) -> None:
        backend, learner = plan.backend, plan.learner
        fit = fit.best if fit.best is not None and not fit.done else fit
        self._copies = deque[Snapshot](maxlen=MOST)
        model, params = backend.model, learner.estimate(backend, fit.state)
        assert isinstance(model, MixtureModel)
        learned = Learned(
            model=model,
            learner=learner,
            stream=Stream(
                None,
                at_home(learner.compact(fit.state)),
                [Snapshot(learner.compact(fit.origin), 0, 0)],
            ),
            params=params,
            n_seen=fit.rows_seen,
            n_rows=fit.length or fit.row,
            n_iter=fit.passes,
            history=fit.history,
            converged=bool(fit.done and learner.converged(fit.state)),
            n_degenerate=count_degenerate(model, params),
            seed=0,
            streaming=False,
        )
        # a pass that was interrupted has sums whose components have their places
        ordered = self._ordered and fit.done and learner.exchangeable and plan.starts.random
        self._remember(learned.ordered() if ordered else learned)

    def _check_learned(self, learned: Learned) -> None:
        """Refuse what this estimator cannot have learned."""
        learned.check()

    def _remember(self, learned: Learned) -> None:
        for name in self._shows:
            self.__dict__.pop(name, None)
        self._learned, self._live = learned, None
        self.__dict__.setdefault("_copies", deque[Snapshot](maxlen=MOST))
        shown = self._attributes(learned)
        self._shows = tuple(dict.fromkeys((*type(self)._shows, *shown)))  # families add their own
        self.__dict__.update(shown)

    def _attributes(self, learned: Learned) -> dict[str, Any]:
        """What the estimator shows of what it has learned."""
        return learned.attributes()

    # streaming

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Go on learning with more rows; the first call may have any number of them."""
        known = self.__dict__.get("_learned")
        with self._learning() as model:
            model._check_parameters()
            model._learn_more(model._settings(), X, sample_weight)
        if self._learned.stream.waiting is None and not (known and known.n_degenerate):
            self._warn_of_degenerate()
        return self

    def _learn_more(self, settings: MixtureSettings, X: Any, sample_weight: Any) -> None:
        first = not self.__sklearn_is_fitted__()
        place = placement_for(self.engine, X)
        source = open_data(
            self,
            X,
            sample_weight,
            self.columns,
            reset=first,
            device=place.tensor_device,
            missing=settings.family.accepts_missing,
        )
        backend, check = settings.backend(source.d, place), settings.check(source)
        learned = self._streaming(settings, backend)
        seen, weight = 0, 0.0
        for rows in source.blocks():
            check(rows, range(seen, seen + len(rows)))
            backend = with_model(backend, learned.model)
            learned = learned.advance(backend, settings.initialization, rows)
            seen, weight = seen + len(rows), weight + rows.total_weight()
        check_some(seen, weight)
        learned = learned.settle(with_model(backend, learned.model), settings.initialization)
        self._remember(
            replace(learned, stream=at_home(learned.stream)) if not place.is_default else learned
        )

    def learn_many(self, X: Any) -> Self:
        """`partial_fit` under the name streaming libraries use."""
        return self.partial_fit(X)

    def learn_one(self, x: Any) -> Self:
        """Learn one row, given as an array of d numbers or a dict of columns."""
        with self._writing or self._lock():
            live = self._live
            if live is None or not live.accepts(x):
                x, names = self._as_row(x)
                live = live or self._live_for(x)
                if live is None or not live.accepts(x):
                    return self.partial_fit(Array(x[None], None, names))
            if not is_in_range(x) or live.outside(x):
                columns = getattr(self, "feature_names_in_", None)
                check_rows(self._family(), columns, Rows(x[None]), [live.n_rows])
            live.learn(x)
        return self

    def _as_row(self, x: Any) -> tuple[Floats, list[str] | None]:
        """The numbers of a row in the order of the columns, and the names of these."""
        names = getattr(self, "feature_names_in_", self.columns)
        if isinstance(x, dict):
            if names is None and self.__sklearn_is_fitted__():
                raise InvalidInputError(
                    "the row is a dict of columns, but the model has learned from arrays without "
                    "column names: give the row as an array"
                )
            names = list(x) if names is None else list(names)
            missing = set(names) - set(x)
            if missing or (self.columns is None and len(names) != len(x)):
                raise InvalidInputError(f"the row has columns {list(x)}: {names} are needed")
            x = [x[name] for name in names]
        return np.asarray(x, dtype=np.float64).reshape(-1), None if names is None else list(names)

    def _live_for(self, x: Floats) -> RowStream | None:
        """A working copy for row-by-row learning, once the stream has started; `x` is a row."""
        if not self.__sklearn_is_fitted__() or len(x) != self.n_features_in_:
            return None
        check_rows(self._family(), None, Rows(x[None]), [self._now().n_rows])
        settings = self._settings()
        backend = settings.backend(self.n_features_in_)
        learned = self._streaming(settings, backend)
        live = live_from(learned, with_model(backend, learned.model), settings.initialization)
        if live is None:
            return None
        # what is shown is made when it is asked for
        kept = {name: part for name, part in self.__dict__.items() if name not in self._shows}
        kept.setdefault("_copies", deque[Snapshot](maxlen=MOST))
        self.__dict__ = kept | {"_learned": learned, "_live": live}
        return live

    def _streaming(self, settings: MixtureSettings, backend: MixtureBackend) -> Learned:
        """What has been learned, in the form that streams."""
        learner = settings.learner.resolve(None, backend.model.d, True)
        check_served(learner, backend.model)
        if not self.__sklearn_is_fitted__():
            return Learned.nothing(backend.model, learner, self._seed())
        learned = self._now()
        for name, now, new in (
            ("n_components", learned.model.k, backend.model.k),
            ("family", without_limits(learned.model.family), backend.model.family),
        ):
            if not equal(now, new):
                raise InvalidInputError(
                    f"{name} is {new!r}, but what has been learned so far is {now!r}: "
                    "keep it, or call fit to start anew"
                )
        if "_copies" in self.__dict__:
            learned = learned.with_snapshots(self._copies.copy())
        if learned.streaming:
            return learned
        if learner.can_continue_from(learned.learner) and learned.stream.state is not None:
            return replace(learned, learner=learner, streaming=True)
        backend = with_model(backend, learned.model)
        state = learner.init_after_fit(
            backend, learned.params, learned.n_rows, learned.weight, self._seed()
        )
        stream = Stream(None, state, [Snapshot(state, learned.n_seen, learned.n_rows)])
        return replace(learned, learner=learner, stream=stream, streaming=True)

    def _now(self) -> Learned:
        """What has been learned, rows of `learn_one` included."""
        here = self.__dict__  # once: another thread may put another one in its place
        live: RowStream | None = here.get("_live")
        if live is not None:
            now, copies = live.settled(), here["_copies"].copy()
            return now.with_snapshots(one for one in copies if one.n_seen < now.n_seen)
        learned: Learned = here["_learned"]
        return learned

    def __getattr__(self, name: str) -> Any:
        model = self._twin()
        if name in model._shows:
            # rows are being learned one by one, or another thread has just stored what it learned
            shown = model.__dict__ if model._live is None else model._attributes(model._now())
            if name in shown:
                return shown[name]
            if name.startswith("precisions_") and "_learned" in model.__dict__:
                shown = model._now().precisions()
            if name in shown:
                return shown[name]
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}{model._why_absent(name)}"
        )

    def _why_absent(self, name: str) -> str:
        """Why an attribute of fitted models is not there, and what to do."""
        if name not in self._shows:
            return ""
        learned = self.__dict__.get("_learned")
        return ": call fit first" if learned is None else f": {why_absent(name, learned)}"

    def __getstate__(self) -> Any:
        """The state of a copy, which may go on learning by itself."""
        model = self._twin()
        if "_learned" not in model.__dict__:
            return super(Density, model).__getstate__()
        if model._live is not None:
            model._remember(model._now())
        now, copies = model._learned.present(), model._copies
        known = {one.n_seen for one in copies.copy()}
        copies.extend([one for one in now if one.n_seen not in known])
        model._copies = deque(now, maxlen=MOST)
        return super(Density, model).__getstate__()

    def save(self, path: str | Path) -> None:
        """Write a model file that `mixfold.load` reads, here or elsewhere."""
        check_is_fitted(self)
        super(Density, copy(self)).save(path)

    def __sklearn_is_fitted__(self) -> bool:
        return "_learned" in self.__dict__
