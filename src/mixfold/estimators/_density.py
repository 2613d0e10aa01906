"""What the estimators share: learning, from data and from streams."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mixfold.core.data_limits import without_limits
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.learner import Learner
from mixfold.core.rows import Array as Floats
from mixfold.core.rows import Rows
from mixfold.core.source import Source
from mixfold.core.start import Start
from mixfold.core.value import at_home, equal, is_value
from mixfold.engines.threads import Threads
from mixfold.estimators._edge import check_rows, engine_for, open_data
from mixfold.estimators._evaluation import Evaluation
from mixfold.estimators._learned import Learned
from mixfold.estimators._limits import limited, warn_of_degenerate, with_model
from mixfold.estimators._live import Live, is_in_range, live_from
from mixfold.estimators._placing import device_for, in_place, problem_for
from mixfold.models.mixture_model import MixtureModel, n_degenerate
from mixfold.run.ancestor import MOST, Ancestor
from mixfold.run.atomic_files import check_output
from mixfold.run.checkpoint import Checkpoint, check_checkpoint
from mixfold.run.fit import Fit
from mixfold.run.identity import DATA, LEARNER, MODEL, is_forced
from mixfold.run.loop import Loop, check_some
from mixfold.run.passing import Check, Passing
from mixfold.run.progress import Lines, Progress, Silent
from mixfold.run.shards import InShards
from mixfold.run.starting import Beginning, check_served, warn_of
from mixfold.run.stream import Stream
from mixfold.sources.array import Array
from mixfold.sources.collection import Collection


class Density(Evaluation):
    """A mixture that learns from arrays, tables, files and streams."""

    n_components: int
    n_init: int
    verbose: int
    columns: Any = None
    passes: int | None = None
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

    def _start(self) -> Start:
        raise AssertionError("every estimator names its start")

    def _beginning(self) -> Beginning:
        learner = self._learner()
        return Beginning(self._start(), learner.starts, learner.exchangeable)

    def _check_parameters(self) -> None:
        raise AssertionError("every estimator checks its parameters")

    _least_rows = 1
    _ordered = True  # whether a fit ends with components in order
    _learns: ClassVar[type] = Learned
    _shows: tuple[str, ...] = Learned.public
    _live: Live | None = None  # what learns rows one by one

    # learning

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from scratch.

        Parameters
        ----------
        X : array, table, path, list of paths, glob, or iterable of blocks
            Rows to learn from.
        y : ignored
        sample_weight : array of n weights, or for tables and files the name of a column
        """
        with self._learning() as model:
            model._check_parameters()
            model._check_outputs()
            device = device_for(model.engine, X)
            source = open_data(
                model,
                X,
                sample_weight,
                model.columns,
                reset=True,
                least_rows=model._least_rows,
                device=device,
            )
            model._learn(source, device)
        self._warn_of_degenerate()
        return self

    def _warn_of_degenerate(self) -> None:
        learned, columns = self._learned, getattr(self, "feature_names_in_", None)
        warn_of_degenerate(learned.model, learned.params, columns)

    def _check_outputs(self) -> None:
        """Refuse files that cannot be written before there is anything to write."""
        if self.checkpoint is not None:
            check_checkpoint(self.checkpoint)
        memory = getattr(self._learner(), "memory", None)
        if memory is not None:
            check_output(Path(memory), special=False)

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Learn from scratch, then label the same rows."""
        return self.fit(X, y, sample_weight).predict(X)

    def _problem(self, d: int, device: Any = None) -> Threads:
        family = self._learner().bounded(self._family())
        family.check_columns(d)
        model = MixtureModel(family, self.n_components, d)
        return problem_for(model, device, self.n_threads)

    def _learn(self, source: Source, device: Any) -> None:
        problem = self._problem(source.d, device)
        learner = self._learner().resolve(source.length, source.d, False)
        with engine_for(self.cluster, source, device) as engine:
            passing = None
            if engine is not None:
                passing = InShards(engine, problem.model, learner, source, self._check(source))
            checkpoint = self._checkpoint(problem, learner, source, passing)

            def work(rows: Source) -> None:
                self._run(problem, learner, rows, passing, checkpoint)

            in_place(work, source, device, problem)

    def _check(self, source: Source) -> Check:
        family, columns = self._family(), source.columns
        return lambda rows, numbers: check_rows(family, columns, rows, numbers)

    def _run(
        self,
        problem: Threads,
        learner: Learner,
        source: Source,
        passing: Passing | None,
        checkpoint: Checkpoint | None,
    ) -> None:
        saved = checkpoint.read() if checkpoint and self.resume else None
        resumed = self._resumed(problem, learner, saved)
        seed = resumed.seed if resumed else self._seed()
        problem, starts = self._prepared(problem, source, seed)
        if isinstance(passing, InShards):
            passing.model = problem.model
        loop = Loop(
            problem,
            learner,
            source,
            starts,
            seen=learner.credit(self._sample_size(source), self.n_components, source.d),
            seed=seed,
            passes=self.passes,
            check=self._check(source),
            passing=passing,
            keep=checkpoint.keep if checkpoint else lambda fit: None,
            progress=self._progress(),
        )
        try:
            loop.run(resumed)
        finally:
            if loop.fit.state is not None:
                self._remember_fit(problem, learner, loop.fit)
                if checkpoint and loop.fit.rows_seen:
                    checkpoint.write(loop.fit)

    def _resumed(self, problem: Threads, learner: Learner, saved: Fit | None) -> Fit | None:
        """Where to go on from, if not from the beginning."""
        return saved

    def _checkpoint(
        self, problem: Threads, learner: Learner, source: Source, passing: InShards | None
    ) -> Checkpoint | None:
        force = is_forced(self.resume)
        if self.checkpoint is None:
            if self.resume:
                raise InvalidInputError("resume=True needs checkpoint=PATH to resume from")
            return None
        seed = self.random_state if isinstance(self.random_state, int) else None
        start = self._start()
        identity = {
            "the number of columns": source.d,
            "the list of columns": self._columns(source),
            "the number of rows": source.length,
            "the number of partitions": None if passing is None else len(passing.partitions),
            DATA: source.fingerprint(),
            MODEL: problem.model,
            LEARNER: learner,
            "init": start if is_value(start) else type(start).__name__,
            "n_init": self.n_init,
            "random_state": seed,
        }
        return Checkpoint(self.checkpoint, identity, self.checkpoint_every, force)

    def _columns(self, source: Source) -> list[str] | None:
        return None if source.columns is None else [str(name) for name in source.columns]

    def _sample_size(self, source: Source) -> int:
        most = max(self._learner().sample_size, self.n_components)
        return most if source.length is None else min(most, source.length)

    def _prepared(self, problem: Threads, source: Source, seed: int) -> tuple[Threads, list[Any]]:
        """The problem with limits taken from a sample, and the starts, which share the sample."""
        sample = self._sample(problem, source, seed)
        problem = limited(problem, sample)
        return problem, self._starts(problem, sample, source, seed)

    def _starts(
        self, problem: Threads, sample: Callable[[], Rows], source: Source, seed: int
    ) -> list[Any]:
        """Functions that make the parameters of each start when its turn comes."""
        beginning = self._beginning()
        number = self.n_init if beginning.random else 1
        if not source.rereadable:
            beginning = replace(beginning, candidates=max(beginning.candidates, number))
            number = 1
        return [lambda i=i: beginning.draw(problem, sample(), [seed, i]) for i in range(number)]

    def _sample(self, problem: Threads, source: Source, seed: int) -> Callable[[], Rows]:
        kept: list[Rows] = []

        def sample() -> Rows:
            if not kept:
                rows = source.sample(
                    self._sample_size(source), np.random.default_rng([seed, 2**31])
                )
                from_the_first = source.length is None and not isinstance(source, Collection)
                whole = from_the_first or source.length == len(rows)
                numbers = range(len(rows)) if whole else None
                check_rows(self._family(), source.columns, rows, numbers)
                check_some(len(rows), 1)
                if len(rows) < self.n_components:
                    raise InvalidInputError(
                        f"Expected n_samples >= n_components but got n_components = "
                        f"{self.n_components}, n_samples = {len(rows)}"
                    )
                warn_of(self._learner(), problem.model, rows)
                kept.append(rows)
            return kept[0]

        return sample

    def _progress(self) -> Progress:
        if self.progress is not None:
            return self.progress
        return Lines() if self.verbose else Silent()

    def _remember_fit(self, problem: Threads, learner: Learner, fit: Fit) -> None:
        fit = fit.best if fit.best is not None and not fit.done else fit
        self._copies = deque[Ancestor](maxlen=MOST)
        params = learner.estimate(problem, fit.state)
        learned = Learned(
            model=problem.model,
            learner=learner,
            stream=Stream(
                None, at_home(learner.rest(fit.state)), [Ancestor(learner.rest(fit.origin), 0, 0)]
            ),
            params=params,
            n_seen=fit.rows_seen,
            n_rows=fit.length or fit.row,
            history=fit.history,
            converged=bool(fit.done and learner.converged(fit.state)),
            degeneracies=n_degenerate(problem.model, params),
            seed=0,
            streaming=False,
        )
        # a pass that was interrupted has sums whose components have their places
        ordered = self._ordered and fit.done and learner.exchangeable and self._beginning().random
        self._remember(learned.ordered() if ordered else learned)

    def _check_learned(self, learned: Learned) -> None:
        """Refuse what this estimator cannot have learned."""
        learned.check()

    def _remember(self, learned: Learned) -> None:
        for name in self._shows:
            self.__dict__.pop(name, None)
        self._learned, self._live = learned, None
        self.__dict__.setdefault("_copies", deque[Ancestor](maxlen=MOST))
        self.__dict__.update(self._attributes(learned))

    def _attributes(self, learned: Learned) -> dict[str, Any]:
        """What the estimator shows of what it has learned."""
        return learned.attributes()

    # streaming

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Go on learning with more rows; the first call may have any number of them."""
        known = self.__dict__.get("_learned")
        with self._learning() as model:
            model._check_parameters()
            model._learn_more(X, sample_weight)
        if self._learned.stream.waiting is None and not (known and known.degeneracies):
            self._warn_of_degenerate()
        return self

    def _learn_more(self, X: Any, sample_weight: Any) -> None:
        first = not self.__sklearn_is_fitted__()
        device = device_for(self.engine, X)
        source = open_data(self, X, sample_weight, self.columns, reset=first, device=device)
        problem = self._problem(source.d, device)
        learned = self._streaming(problem)
        seen, weight = 0, 0.0
        for rows in source.blocks():
            check_rows(self._family(), source.columns, rows, range(seen, seen + len(rows)))
            problem = with_model(problem, learned.model)
            learned = learned.advance(problem, self._beginning(), rows)
            seen, weight = seen + len(rows), weight + rows.total_weight()
        check_some(seen, weight)
        learned = learned.settle(with_model(problem, learned.model), self._beginning())
        self._remember(replace(learned, stream=at_home(learned.stream)) if device else learned)

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
                check_rows(self._family(), columns, Rows(x[None]), [live.n_seen])
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

    def _live_for(self, x: Floats) -> Live | None:
        """A working copy for row-by-row learning, once the stream has started; `x` is a row."""
        if not self.__sklearn_is_fitted__() or len(x) != self.n_features_in_:
            return None
        check_rows(self._family(), None, Rows(x[None]), [self._now().n_seen])
        problem = self._problem(self.n_features_in_)
        learned = self._streaming(problem)
        live = live_from(learned, with_model(problem, learned.model))
        if live is None:
            return None
        # what is shown is made when it is asked for
        kept = {name: part for name, part in self.__dict__.items() if name not in self._shows}
        kept.setdefault("_copies", deque[Ancestor](maxlen=MOST))
        self.__dict__ = kept | {"_learned": learned, "_live": live}
        return live

    def _streaming(self, problem: Threads) -> Learned:
        """What has been learned, in the form that streams."""
        learner = self._learner().resolve(None, problem.model.d, True)
        check_served(learner, problem.model)
        if not self.__sklearn_is_fitted__():
            return Learned.nothing(problem.model, learner, self._seed())
        learned = self._now()
        for name, now, new in (
            ("n_components", learned.model.k, problem.model.k),
            ("family", without_limits(learned.model.family), problem.model.family),
        ):
            if not equal(now, new):
                raise InvalidInputError(
                    f"{name} is {new!r}, but what has been learned so far is {now!r}: "
                    "keep it, or call fit to start anew"
                )
        if "_copies" in self.__dict__:
            learned = learned.descending(self._copies.copy())
        if learned.streaming:
            return learned
        if learner.goes_on_from(learned.learner) and learned.stream.state is not None:
            return replace(learned, learner=learner, streaming=True)
        problem = with_model(problem, learned.model)
        state = learner.init(problem, learned.params, learned.n_seen, self._seed())
        stream = Stream(None, state, [Ancestor(state, learned.n_seen, learned.n_rows)])
        return replace(learned, learner=learner, stream=stream, streaming=True)

    def _now(self) -> Learned:
        """What has been learned, rows of `learn_one` included."""
        here = self.__dict__  # once: another thread may put another one in its place
        live: Live | None = here.get("_live")
        if live is not None:
            now, copies = live.settled(self._beginning()), here["_copies"].copy()
            return now.descending(one for one in copies if one.n_seen < now.n_seen)
        learned: Learned = here["_learned"]
        return learned

    def __getattr__(self, name: str) -> Any:
        model = self._twin()
        if name in model._shows:
            # rows are being learned one by one, or another thread has just stored what it learned
            shown = model.__dict__ if model._live is None else model._attributes(model._now())
            if name in shown:
                return shown[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

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
