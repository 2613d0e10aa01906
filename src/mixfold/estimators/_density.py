"""Fitting, as all estimators of mixtures share it."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any, Self

from mixfold.core.engine import Engine, address_of
from mixfold.core.errors import InvalidInputError, MissingValueError
from mixfold.core.initializer import Initializer
from mixfold.core.learner import Learner
from mixfold.core.learner_capabilities import for_one_pass, row_keeping
from mixfold.core.missing_cells import has_missing
from mixfold.core.source import Source
from mixfold.core.value import at_home, is_value, replace
from mixfold.estimators._foreign import as_rows
from mixfold.estimators._known_labels import KnownLabels
from mixfold.estimators._learned import Learned
from mixfold.estimators._mixture_settings import MixtureSettings
from mixfold.estimators._single_rows import SingleRows
from mixfold.fitting.atomic_files import check_output
from mixfold.fitting.checkpoint import Checkpoint, check_checkpoint, model_of_checkpoint
from mixfold.fitting.fit import Fit
from mixfold.fitting.identity import DATA, LEARNER, MODEL, is_forced
from mixfold.fitting.initialization import Sample, SampledParams
from mixfold.fitting.loop import Loop
from mixfold.fitting.placement import Placement, engine_for, placement_for
from mixfold.fitting.plan import FitPlan, InitialParams
from mixfold.fitting.progress import Lines, Progress, Silent
from mixfold.fitting.sharded_pass import ShardedPass
from mixfold.fitting.snapshot import MOST, Snapshot
from mixfold.fitting.stream import Stream
from mixfold.models.labelled import without_label_column
from mixfold.models.limits_from_data import limited
from mixfold.models.mixture_model import MixtureBackend, MixtureModel, count_degenerate
from mixfold.sources.array_source import ArraySource
from mixfold.sources.tensor import Tensor


def may_have_missing(source: Source) -> bool:
    """Whether cells are missing, or may be in a source that can be read only once."""
    if isinstance(source, ArraySource):
        return source.x.dtype.kind == "f" and has_missing(source.x)
    if isinstance(source, Tensor):
        return has_missing(source.x)
    return not source.rereadable


class Density(SingleRows):
    """A mixture that learns from arrays, tables, files and streams."""

    n_init: int
    verbose: int
    checkpoint: Any = None
    checkpoint_every: float = 30.0
    resume: Any = False
    cluster: Any = None
    progress: Progress | None = None  # set by front ends that display progress

    _least_rows = 1
    _fitted_labels: KnownLabels | None = None  # those of the last fit
    _ordered = True  # whether components are sorted at the end of a fit

    def __sklearn_clone__(self) -> Self:
        """An unfitted copy with the same client or cluster, which cannot be copied."""
        twin = self._twin()
        twin.cluster = None
        made: Self = super(Density, twin).__sklearn_clone__()
        if self.cluster is not None:
            made.cluster = self.cluster
        return made

    def __getstate__(self) -> Any:
        """The state, with the address of a client or cluster in its place."""
        state = super().__getstate__()
        if state.get("cluster") is not None:
            state["cluster"] = address_of(state["cluster"])
        return state

    # learning

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, labels: Any = None) -> Self:
        """Fit the model, discarding what was learned before.

        Parameters
        ----------
        X : array, table, path, list of paths, glob, address, `CsvFiles`, lazy frame, or blocks
            Rows to learn from; also tensors, Dask collections, and arrays of xarray or JAX.
        y : ignored
        sample_weight : array of n weights, or for tables and files the name of a column
        labels : array of n labels, or for tables and files the name of a column
            Known components of some rows: their numbers, or names of classes; -1, None or NaN
            where they are not known.
        """
        with self._learning() as model:
            model._check_parameters()
            X = as_rows(X, sample_weight)
            place = placement_for(model.engine, X)
            X, labelling = model._divided(X, labels, sample_weight)
            settings = model._settings(model._family_for(X, sample_weight))
            settings = settings.labelled(model._labels_for(X, labelling))
            model._check_outputs(settings.learner)
            settings, source = model._opened(
                settings, X, sample_weight, labelling, place, True, model._least_rows
            )
            model._fitted_labels = settings.labels
            settings = settings.with_noise(model.noise, source)
            model._learn_cells(settings, source, place)
        self._warn_of_degenerate()
        return self

    def _check_outputs(self, learner: Learner) -> None:
        """Refuse output files that cannot be written, before the fit begins."""
        if self.checkpoint is not None:
            check_checkpoint(self.checkpoint)
        memory = getattr(learner, "memory", None)
        if memory is not None:
            check_output(Path(memory), special=False)

    def fit_predict(
        self, X: Any, y: Any = None, sample_weight: Any = None, labels: Any = None
    ) -> Any:
        """Fit the model and return the most probable component of each row."""
        return self.fit(X, y, sample_weight, labels).predict(X)

    def _learn_cells(self, settings: MixtureSettings, source: Source, place: Placement) -> None:
        """Fit rows that may have missing cells.

        Statistics of incomplete rows take longer, so they are used where cells are missing: from
        the beginning if it is known, else from the first missing cell on, when the fit begins anew.
        A checkpoint tells whether there was one.
        """
        resume = self.resume
        if not settings.cells.missing or settings.family.accepts_missing:
            self._learn(settings, source, place, resume)
        elif self._resumes_incomplete() or (
            may_have_missing(source) and (source.rereadable or not settings.learner.rereads)
        ):
            self._learn(settings.for_missing(), source, place, resume)
        else:
            try:
                self._learn(settings, source, place, resume)
            except MissingValueError:
                self._learn(settings.for_missing(), source, place, resume=False)

    def _resumes_incomplete(self) -> bool:
        """Whether the fit is resumed from a checkpoint that was written after a missing cell."""
        if not self.resume or self.checkpoint is None:
            return False
        model = model_of_checkpoint(self.checkpoint)
        return isinstance(model, MixtureModel) and model.family.accepts_missing

    def _learn(
        self, settings: MixtureSettings, source: Source, place: Placement, resume: bool | str
    ) -> None:
        with engine_for(self.cluster, source, place) as engine:
            plan = self._plan(settings, source, settings.backend(source.d, place), engine, resume)
            plan.backend.run_resident(lambda rows: self._run(replace(plan, source=rows)), source)

    def _plan(
        self,
        settings: MixtureSettings,
        source: Source,
        backend: MixtureBackend,
        engine: Engine | None,
        resume: bool | str,
    ) -> FitPlan:
        learner, check = settings.learner, settings.check(source)
        learner = learner if source.rereadable else for_one_pass(learner)
        learner = learner.resolve(source.length, source.d, False)
        learner = row_keeping(learner).searching_from(settings.initialization.kinds)
        pass_runner = None
        if engine is not None:
            pass_runner = ShardedPass(engine, backend.model, learner, source, check)
        start = settings.initialization.start
        checkpoint = self._checkpoint(backend, learner, source, pass_runner, start)
        saved = checkpoint.read() if checkpoint and resume else None
        resumed = self._resumed(backend, learner, saved)
        seed = resumed.seed if resumed else self._seed()
        sample = settings.sample(backend, source, self.n_init, seed)
        backend = limited(backend, sample.rows)
        if source.rereadable:
            backend = settings.initialization.with_prior(backend, sample.rows, seed)
        if pass_runner is not None:
            pass_runner.model = backend.model
        return FitPlan(
            backend,
            learner,
            source,
            self._initial_params(settings, backend, sample, seed),
            seed=seed,
            prior_count=learner.prior_count(sample.drawing.size, self.n_components, source.d),
            passes=self._most_passes(),
            check=check,
            pass_runner=pass_runner,
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

    def _initial_params(
        self, settings: MixtureSettings, backend: MixtureBackend, sample: Sample, seed: int
    ) -> InitialParams:
        return SampledParams(backend, sample)

    def _resumed(self, backend: MixtureBackend, learner: Learner, saved: Fit | None) -> Fit | None:
        """The fit to resume from; None to start from the beginning."""
        return saved

    def _checkpoint(
        self,
        backend: MixtureBackend,
        learner: Learner,
        source: Source,
        pass_runner: ShardedPass | None,
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
            "the number of partitions": None
            if pass_runner is None
            else len(pass_runner.partitions),
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
        model, params = (
            row_keeping(learner).model_learned(backend.model, fit.state),
            learner.estimate(backend, fit.state),
        )
        assert isinstance(model, MixtureModel)
        model = without_label_column(model)
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
            labels=self._fitted_labels,
        )
        # the sums of an interrupted pass refer to the present order of components
        ordered = self._ordered and fit.done and learner.exchangeable and plan.initial_params.random
        self._remember(learned.ordered() if ordered else learned)
