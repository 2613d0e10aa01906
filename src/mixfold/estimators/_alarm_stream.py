"""A mixture that learns a stream, with a threshold of the scores of rows not yet learned.

The rows of a block are scored under the parameters at its beginning. So rows one by one and rows in
blocks of any sizes raise the same alarms, and a row does not change its own score.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from math import inf
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import check_array, check_count, check_kind
from mixfold.core.errors import InvalidInputError
from mixfold.core.missing_cells import has_missing
from mixfold.core.rows import Array, Rows
from mixfold.core.value import value
from mixfold.estimators._alarm import Alarm
from mixfold.estimators._edge import check_rows
from mixfold.estimators._new_columns import IGNORE, LEARN, names_in
from mixfold.estimators._noise import check_no_noise
from mixfold.estimators._row_evaluator import RowEvaluator
from mixfold.estimators._score_threshold import ScoreThreshold, ThresholdState
from mixfold.estimators.mixture import Mixture
from mixfold.models.conditioning import unusualness
from mixfold.models.mixture_model import MixtureModel
from mixfold.sources.array_source import ArraySource

BLOCK = 256  # rows
UNSCORED = "a stream of which no row is scored yet"  # to learn new columns


@value
class AlarmStreamState:
    """The current block, and what was counted.

    Its first `in_block` rows are learned, `scores` are theirs without those left out, and `model`
    and `params` are those at its beginning; both are None before the first block is full.
    """

    threshold: ThresholdState
    model: MixtureModel | None
    params: Any
    scores: Array
    in_block: int
    n_rows: int
    n_scored: int
    n_alarms: int

    def check(self) -> None:
        """Raise an error for an invalid state."""
        self.threshold.check()
        if self.model is not None:
            check_kind("model", self.model, MixtureModel)
            self.model.check_params(self.params)
        for name in ("in_block", "n_rows", "n_scored", "n_alarms"):
            check_count(name, getattr(self, name))
        if self.in_block >= BLOCK or len(self.scores) > self.in_block:
            raise InvalidInputError(f"in_block is {self.in_block}, with {len(self.scores)} scores")
        check_array("scores", self.scores, (len(self.scores),), -inf, inf)


class ScoredRows(NamedTuple):
    """Rows of a stream, the number of the first, and their scores before they were learned."""

    first: int
    x: Array
    scores: Array
    threshold: float
    evaluator: RowEvaluator

    def unusual(self) -> NDArray[np.intp]:
        """Which of the rows raise alarms, counted from 0."""
        return np.flatnonzero(self.scores > self.threshold)

    def alarms(self) -> Iterator[Alarm]:
        """An alarm for every row that raises one, with the columns that made it."""
        return map(self.alarm, self.unusual().tolist())

    def alarm(self, i: int) -> Alarm:
        """The alarm of row i, counted from 0."""
        return Alarm(
            self.first + i, float(self.scores[i]), self.threshold, self._columns(self.x[i])
        )

    def _columns(self, row: Array) -> dict[Any, float]:
        evaluator = self.evaluator
        try:
            return unusual_columns(evaluator.model, evaluator.params, row, evaluator.names)
        except InvalidInputError:  # conditional distributions are not known
            return {}


def unusual_columns(
    model: MixtureModel, params: Any, row: Array, names: Sequence[Any] | None
) -> dict[Any, float]:
    """How unusual every cell is given the others, by column, the largest first, without missing."""
    check_no_noise(model, "explain")
    cells = unusualness(model, params, row)
    order = [int(j) for j in np.argsort(-cells, kind="stable") if not np.isnan(cells[j])]
    return {j if names is None else names[j]: float(cells[j]) for j in order}


class AlarmStream:
    """Learns rows and says which of them are unusual.

    One thread learns; others may read `moment`, and get what was learned after some row.
    """

    def __init__(self, mixture: Mixture, threshold: ScoreThreshold) -> None:
        self.mixture, self.threshold = mixture, threshold
        self._lock = Lock()  # a row changes the mixture, the threshold and the counts
        self.evaluator: RowEvaluator | None = None
        self._scores: list[float] = []
        self._in_block = self.n_rows = self.n_scored = self.n_alarms = 0

    def learn_one(self, x: Any) -> ScoredRows | None:
        """Learn one row; it is returned if it raises an alarm."""
        with self._lock:
            return self._learn_row(x)

    def _learn_row(self, x: Any) -> ScoredRows | None:
        evaluator, threshold = self.evaluator, self.threshold
        if evaluator is None:
            self.mixture.learn_one(x)
            self._count(1)
            return None
        found = None
        if isinstance(x, dict) and self.mixture._has_new_columns(x):
            self.mixture._take_in(x, UNSCORED)
        row = self.mixture._row_as_numbers(evaluator, x)
        own, _ = self.mixture._evaluated_by(evaluator, row)
        if own is not evaluator:  # not the distribution of the observed columns, as in blocks
            own = evaluator.for_missing
        score, level = -own.log_density(row), threshold.level
        if score <= threshold.extreme_level or not threshold.leave_out():
            self.mixture.learn_one(row)
            self._scores.append(score)
        if score > level:
            found = ScoredRows(self.n_rows, row[None], np.array([score]), level, evaluator)
        self._count(1, level, int(score > level))
        return found

    def is_alarm(self, x: Any) -> bool:
        """Whether a row would raise an alarm."""
        with self._lock:
            return self.score_one(x) > self.threshold.level

    def score_one(self, x: Any) -> float:
        """The score of a row; 0 before the first block is full."""
        if self.evaluator is None:
            return 0.0
        evaluator, row = self.mixture._evaluated_by(self.evaluator, x)
        return -evaluator.log_density(row)

    def take_in(self, data: Any) -> None:
        """Learn, refuse or ignore columns of a table that were not there before."""
        if self.mixture.new_columns in (IGNORE, LEARN):
            self.mixture._take_in(names_in(data), "" if self.evaluator is None else UNSCORED)

    def learn(self, rows: Rows, columns: Any, number: int) -> Iterator[ScoredRows]:
        """Learn rows, and iterate over those that are scored before, block by block.

        `number` is that of the first row in the user's data, for messages.
        """
        first = 0
        while first < len(rows):
            part = rows.cut(first, first + BLOCK - self._in_block)
            x = np.asarray(part.x, dtype=np.float64)
            yield from self._learn_part(x, columns, range(number + first, number + len(rows)))
            first += len(part)

    def _learn_part(self, x: Array, columns: Any, numbers: range) -> Iterator[ScoredRows]:
        """Learn rows that end with the block or before."""
        evaluator, level = self.evaluator, self.threshold.level
        if evaluator is None:
            self.mixture.partial_fit(ArraySource(x, None, columns))
            self._count(len(x))
            return
        incomplete = self.mixture._allows_missing and has_missing(x)
        own = evaluator.for_missing if incomplete else evaluator
        check_rows(own.model.family, columns, Rows(x), numbers)
        scores = -evaluator.log_densities(x)
        kept = scores <= self.threshold.extreme_level
        for i in np.flatnonzero(~kept):
            kept[i] = not self.threshold.leave_out()
        if kept.any():
            self.mixture.partial_fit(ArraySource(x[kept], None, columns))
            self._scores += scores[kept].tolist()
        found = ScoredRows(self.n_rows, x, scores, level, evaluator)
        self._count(len(x), level, len(found.unusual()))
        yield found

    def _count(self, n: int, level: float = inf, n_alarms: int = 0) -> None:
        """Count rows that were learned; at the end of a block threshold and parameters are new."""
        self.n_rows += n
        self.n_scored += n if level < inf else 0
        self.n_alarms += n_alarms
        self._in_block += n
        if self._in_block == BLOCK:
            self.threshold.update(np.array(self._scores), BLOCK)
            self._scores, self._in_block = [], 0
            self.begin_block()

    def begin_block(self) -> None:
        """Score the next rows under the current parameters."""
        self.evaluator = self.mixture._row_evaluator()

    def twin(self) -> AlarmStream:
        """A stream that continues to learn in blocks of rows while this one stays as it is."""
        with self._lock:
            found = AlarmStream.from_state(self.mixture._twin(), self._state())
            found.evaluator = self.evaluator
        return found

    def __reduce__(self) -> Any:
        return AlarmStream.from_state, self.moment()

    def moment(self) -> tuple[Mixture, AlarmStreamState]:
        """A copy of the mixture and what was learned besides it, both after the same row."""
        with self._lock:
            return copy(self.mixture), self._state()

    def _state(self) -> AlarmStreamState:
        evaluator = self.evaluator
        return AlarmStreamState(
            self.threshold.state(),
            None if evaluator is None else evaluator.model,
            None if evaluator is None else evaluator.params,
            np.array(self._scores, dtype=np.float64),
            self._in_block,
            self.n_rows,
            self.n_scored,
            self.n_alarms,
        )

    @staticmethod
    def from_state(mixture: Mixture, state: AlarmStreamState) -> AlarmStream:
        """The stream that continues from a state."""
        found = AlarmStream(mixture, ScoreThreshold.from_state(state.threshold))
        if state.model is not None:
            found.evaluator = mixture._row_evaluator_for(state.model, state.params)
        found._scores, found._in_block = state.scores.tolist(), state.in_block
        found.n_rows, found.n_scored = state.n_rows, state.n_scored
        found.n_alarms = state.n_alarms
        return found
