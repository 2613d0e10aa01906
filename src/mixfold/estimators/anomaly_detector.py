"""Alarms for unusual rows, as often as promised."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin, clone
from sklearn.utils.validation import check_is_fitted

from mixfold.core.checks import check_above, check_kind, check_whole
from mixfold.core.errors import InvalidInputError
from mixfold.core.source import Source
from mixfold.estimators._alarm import Alarm
from mixfold.estimators._alarm_stream import AlarmStream, ScoredRows, unusual_columns
from mixfold.estimators._edge import is_source
from mixfold.estimators._guarded import Guarded
from mixfold.estimators._learned_alarms import LearnedAlarms
from mixfold.estimators._score_threshold import FIRST_WINDOW, ScoreThreshold
from mixfold.estimators._unlearned_scores import learned_scores, unlearned_scores
from mixfold.estimators.mixture import Mixture
from mixfold.fitting.loop import check_some
from mixfold.sources.array_source import ArraySource

OFTEN = 0.01  # the rate of false alarms if none is given
IN_SAMPLE = 8192  # scores from which a level is computed


class AnomalyDetector(OutlierMixin, Guarded):  # type: ignore[misc]
    """Alarms for rows that are improbable under a mixture, with a promised rate of false alarms.

    The score of a row is -log p(x), and it is an alarm if the score is above `threshold_`. On a
    stream, every row is scored before it is learned, and the threshold is the level that the scores
    of recent rows exceed at the promised rate. It follows slow drift. For rates that the data are
    too few for it comes from a generalised Pareto distribution of the largest scores.

    Parameters
    ----------
    estimator : Mixture, default=None
        The mixture of normal rows, not fitted; None is one Gaussian, `Mixture()`.
    contamination : float, default=None
        The fraction of all rows that are to be alarms, at most 0.5, as in scikit-learn: the rows
        that were learned include so many anomalies.
    false_alarm_rate : float, default=None
        The fraction of normal rows that raise an alarm. The rows of `fit` are taken to be normal,
        and so are those of a stream, unless they are extreme: a thousand times less probable than
        the rate. Extreme rows are not learned, as long as they are not more frequent than the rate.
        Give this or `contamination`; without both it is 0.01.
    window : int, default=100000
        The threshold of a stream comes from the latest rows, between one and two times this number.

    Attributes
    ----------
    estimator_ : Mixture
        The fitted mixture.
    threshold_ : float
        The largest score that is no alarm; infinite for the first rows of a stream, 512 at most.
    offset_ : float
        `-threshold_`, the smallest log-density that is no alarm, as in scikit-learn.
    rate_ : float
        `contamination` or `false_alarm_rate`, whichever was given.
    n_scored_, n_alarms_ : int
        How many rows of the stream were compared with a threshold, and how many raised an alarm.
    decision_scores_, labels_ : arrays
        Scores and labels (1 for alarms) of the rows of `fit`, as in PyOD, if they were in memory.
        They are not saved.

    Notes
    -----
    `score_samples` and `decision_function` are low for anomalies, and `predict` is -1, as in
    scikit-learn; `score_one`, `decision_scores_` and `threshold_` are high, as in river and PyOD.
    PyOD's `decision_function` is `-score_samples` here.

    Categories of a table that come later must be known from the first rows, unless the mixture has
    `unseen="own-level"`.

    Examples
    --------
    >>> from mixfold import AnomalyDetector, Mixture, datasets
    >>> rows = datasets.load_faithful()
    >>> detector = AnomalyDetector(Mixture(n_components=2, random_state=0), contamination=0.02)
    >>> detector.fit_predict(rows).tolist().count(-1)
    5
    >>> detector.predict([[3.0, 90.0], [4.3, 80.0]])
    array([-1,  1])
    >>> print(detector.process_one([1.5, 80.0]))
    row 0: score ...

    References
    ----------
    Siffer, Fouque, Termier and Largouet (2017), Anomaly detection in streams with extreme value
    theory; Dunning (2021), The t-digest: efficient estimates of distributions.
    """

    _learns: ClassVar[type] = LearnedAlarms
    _saved_apart: ClassVar[tuple[str, ...]] = ("estimator",)
    get_params = BaseEstimator.get_params  # nested parameters are those of the mixture
    set_params = BaseEstimator.set_params

    def __init__(
        self,
        estimator: Mixture | None = None,
        *,
        contamination: float | None = None,
        false_alarm_rate: float | None = None,
        window: int = 100_000,
    ) -> None:
        self.estimator = estimator
        self.contamination = contamination
        self.false_alarm_rate = false_alarm_rate
        self.window = window

    @classmethod
    def from_mixture(cls, mixture: Mixture, X: Any = None, **settings: Any) -> Self:
        """A detector that begins with a mixture as it is, fitted or not.

        Parameters
        ----------
        mixture : Mixture
        X : the rows that the mixture was fitted to, default=None
            From their scores comes the threshold. Without them it comes from the next 256 rows.
        **settings : as of the class
        """
        check_kind("mixture", mixture, Mixture)
        found = cls(mixture, **settings)
        found._begin()
        found._stream.mixture = copy(mixture)
        if X is not None:
            check_is_fitted(mixture)
            found._place_threshold(found._open(X), in_memory=not is_source(X))
        if mixture.__sklearn_is_fitted__():
            found._stream.begin_block()
        return found

    # learning

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the mixture and compute the threshold, discarding what was learned before.

        With `false_alarm_rate`, the threshold comes from scores of rows that were held out, unless
        there are thousands of rows for every parameter. Data that can be read only once are learned
        as by `partial_fit`.

        Parameters
        ----------
        X : array, table, path, list of paths, glob, address, `CsvFiles`, lazy frame, or blocks
        y : ignored
        """
        with self._learning() as model:
            model._begin()
            source = model._open(X)
            if source.rereadable:
                model._fit(source, in_memory=not is_source(X))
            else:
                model._learn(source)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Score more rows of a stream, then learn them, and adjust the threshold."""
        with self._continuing() as model:
            model._learn(model._open(X))
        return self

    def learn_many(self, X: Any) -> Self:
        """The same as `partial_fit`, under the name used by streaming libraries."""
        return self.partial_fit(X)

    def learn_one(self, x: Any) -> Self:
        """Score one row, an array of d numbers or a dict of columns, and learn it."""
        with self._writing or self._lock():
            self._started().learn_one(x)
        return self

    def process_one(self, x: Any) -> Alarm | None:
        """Score one row, and learn it: its alarm, or None if it raises none."""
        with self._writing or self._lock():
            found = self._started().learn_one(x)
        return None if found is None else next(found.alarms())

    def process_many(self, X: Any) -> list[Alarm]:
        """Score more rows of a stream, then learn them: their alarms."""
        with self._continuing() as model:
            return [alarm for found in model._scored(model._open(X)) for alarm in found.alarms()]

    def process_blocks(self, X: Any) -> list[ScoredRows]:
        """The same as `process_many`: all rows with their scores, which make alarms on request."""
        with self._continuing() as model:
            return [*model._scored(model._open(X))]

    # evaluation

    def score_samples(self, X: Any) -> Any:
        """Log-density of every row, low for anomalies."""
        check_is_fitted(self)
        return self.estimator_.score_samples(X)

    def decision_function(self, X: Any) -> Any:
        """`score_samples` less `offset_`: below zero for rows that raise an alarm."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> Any:
        """-1 for rows that raise an alarm, 1 for others."""
        return 1 - 2 * (self.decision_function(X) < 0.0)

    def score_one(self, x: Any) -> float:
        """-log p(x) of one row, high for anomalies; 0 before 256 rows of a stream are known."""
        stream = self.__dict__.get("_stream")
        return 0.0 if stream is None else stream.score_one(x)

    def predict_one(self, x: Any) -> bool:
        """Whether one row raises an alarm."""
        stream = self.__dict__.get("_stream")
        return stream is not None and stream.is_alarm(x)

    def explain_one(self, x: Any) -> dict[Any, float]:
        """How unusual the value of every column of a row is, given the others, the largest first.

        It is -log p(x_j | others) less what this usually is, as in the alarms of `process_one`.
        """
        check_is_fitted(self)
        mixture = self.estimator_
        evaluator = self._stream.evaluator or mixture._row_evaluator()
        row = mixture._row_as_numbers(evaluator, x)
        mixture._evaluated_by(evaluator, row)  # refuses invalid values
        return unusual_columns(evaluator.model, evaluator.params, row, evaluator.names)

    def save(self, path: str | Path) -> None:
        """Write a model file that `mixfold.load` reads."""
        from mixfold.estimators.saving import save

        check_is_fitted(self)
        save(self, path)

    # attributes

    @property
    def estimator_(self) -> Mixture:
        """The fitted mixture."""
        mixture: Mixture = self._known("estimator_").mixture
        return mixture

    @property
    def threshold_(self) -> float:
        """The largest score that is no alarm."""
        return float(self._known("threshold_").threshold.level)

    @property
    def offset_(self) -> float:
        """The smallest log-density that is no alarm."""
        return -float(self._known("offset_").threshold.level)

    @property
    def rate_(self) -> float:
        """The promised fraction of alarms."""
        return float(self._known("rate_").threshold.rate)

    @property
    def n_scored_(self) -> int:
        """How many rows of the stream were compared with a threshold."""
        return int(self._known("n_scored_").n_scored)

    @property
    def n_alarms_(self) -> int:
        """How many rows of the stream raised an alarm."""
        return int(self._known("n_alarms_").n_alarms)

    def _known(self, name: str) -> AlarmStream:
        stream = self.__dict__.get("_stream")
        if stream is None:
            raise AttributeError(f"AnomalyDetector has no attribute {name!r}: call fit first")
        assert isinstance(stream, AlarmStream)
        return stream

    def __getattr__(self, name: str) -> Any:
        if name in ("n_features_in_", "feature_names_in_") and "_stream" in self.__dict__:
            return getattr(self.estimator_, name)
        hint = ": call fit first" if isinstance(getattr(type(self), name, None), property) else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def __sklearn_is_fitted__(self) -> bool:
        return "_stream" in self.__dict__ and self.estimator_.__sklearn_is_fitted__()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._mixture()._allows_missing
        return tags

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        if "_stream" in state:
            state["_stream"] = copy(state["_stream"])
        return state

    # what `load` and `save` use

    def _now(self) -> LearnedAlarms:
        return LearnedAlarms.of(self._stream)

    def _check_learned(self, learned: LearnedAlarms) -> None:
        learned.check()

    def _remember(self, learned: LearnedAlarms) -> None:
        self._stream = learned.to_stream()
        self.estimator = clone(self._stream.mixture)

    # details

    def _check_parameters(self) -> None:
        if self.contamination is not None and self.false_alarm_rate is not None:
            raise InvalidInputError(
                f"contamination is {self.contamination!r} and false_alarm_rate "
                f"{self.false_alarm_rate!r}: give one of them, the fraction of all rows or that of "
                "normal rows"
            )
        for name in ("contamination", "false_alarm_rate"):
            if getattr(self, name) is not None:
                check_above(name, getattr(self, name), 0.0, 0.5)
        check_whole("window", self.window, FIRST_WINDOW)
        self._mixture()._check_parameters()

    def _mixture(self) -> Mixture:
        """The mixture as it was given."""
        if self.estimator is None:
            return Mixture()
        check_kind("estimator", self.estimator, Mixture)
        return self.estimator

    def _begin(self) -> None:
        """Forget what was learned."""
        self._check_parameters()
        for name in ("n_features_in_", "feature_names_in_", "decision_scores_", "labels_"):
            self.__dict__.pop(name, None)
        rate, normal = self.contamination, self.contamination is None
        if rate is None:
            rate = OFTEN if self.false_alarm_rate is None else self.false_alarm_rate
        threshold = ScoreThreshold(float(rate), int(self.window), normal)
        self._stream = AlarmStream(clone(self._mixture()), threshold)

    def _started(self) -> AlarmStream:
        """The stream, which begins if there is none."""
        if "_stream" not in self.__dict__:
            self._begin()
        return self._stream

    @contextmanager
    def _continuing(self) -> Iterator[Self]:
        """A copy that learns more rows."""
        with self._learning() as model:
            model._check_parameters()
            model._stream = model._started().twin()
            yield model

    def _open(self, X: Any) -> Source:
        """The rows of data, the first of a stream or later ones."""
        mixture = self.estimator_
        self._stream.take_in(X)
        fitted = mixture.__sklearn_is_fitted__()
        source: Source = mixture.open_rows(X) if fitted else mixture.open_training(X)
        if source.engine is not None:
            raise InvalidInputError(
                "X is a collection of a cluster, whose rows have no order in which they are "
                "scored: give files, or rows in memory"
            )
        return source

    def _scored(self, source: Source) -> Iterator[ScoredRows]:
        """Learn the rows of a source, and iterate over those that were scored before."""
        first = 0
        for rows in source.blocks():
            yield from self._stream.learn(rows.on_host(), source.columns, first)
            first += len(rows)
        check_some(first, first)

    def _learn(self, source: Source) -> None:
        for _ in self._scored(source):
            pass

    def _fit(self, source: Source, in_memory: bool) -> None:
        """Fit the mixture; the scores of all rows make the threshold."""
        self.estimator_.fit(source)
        self._place_threshold(source, in_memory)
        self._stream.begin_block()

    def _place_threshold(self, source: Source, in_memory: bool) -> None:
        """Compute the threshold from the scores of the rows of the fit."""
        mixture, threshold = self.estimator_, self._stream.threshold
        drawn = source.sample(IN_SAMPLE, np.random.default_rng(0))
        some = [*learned_scores(mixture, ArraySource(drawn.x, None, source.columns))]
        scores = unlearned_scores if self.contamination is None else learned_scores
        threshold.learn_all(np.concatenate(some), scores(mixture, source))
        if in_memory:
            self.decision_scores_ = np.concatenate([*learned_scores(mixture, source)])
            if self.contamination is not None:
                threshold.divide(self.decision_scores_)
            self.labels_ = (self.decision_scores_ > threshold.level).astype(np.int64)
