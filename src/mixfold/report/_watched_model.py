"""A detector that learns a stream, and says which rows are unusual before it learns them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mixfold.core.rows import Array
from mixfold.estimators.anomaly_detector import AnomalyDetector
from mixfold.report._alarm import Alarm, Cell
from mixfold.report._cells_of_rows import names_of, texts_of

MOST_EXPLAINED = 20  # alarms of one batch
MOST_CELLS = 3  # that are named in an alarm


@dataclass(frozen=True)
class Outcome:
    """What was found in a batch of rows.

    `log_density` are the scores of the rows, in their order, before they were learned; none at the
    beginning of the stream. `threshold` is that of the next row, None as long as there is none.
    `n_alarms` counts all alarms, of which the worst are in `alarms`.
    """

    n: int
    log_density: Array
    threshold: float | None = None
    n_alarms: int = 0
    alarms: Sequence[Alarm] = ()


class WatchedModel(Protocol):
    """What the live page needs of a model: one of another kind has these members."""

    estimator: Any  # what is saved, and restored from a checkpoint

    @property
    def mixture(self) -> Any:
        """The mixture that learns, whose parameters are shown."""
        ...

    @property
    def threshold_words(self) -> str:
        """How the threshold comes about."""
        ...

    def learn(self, rows: Any, before: int) -> Outcome:
        """Score rows, an Arrow table or an array, and learn them; no effect after an error.

        `before` is the number of rows of the stream that were learned before.
        """
        ...


class WatchedDetector:
    """A detector of anomalies, whose alarms are shown with the cells that made them."""

    def __init__(self, estimator: AnomalyDetector) -> None:
        self.estimator = estimator

    @property
    def mixture(self) -> Any:
        """The mixture that learns."""
        return self.estimator.estimator_

    @property
    def threshold_words(self) -> str:
        """How the threshold comes about."""
        detector = self.estimator
        rows = "normal rows" if detector.contamination is None else "rows"
        words = (
            "A row raises an alarm if its log-density, before it is learned, is below a threshold "
            f"that {100.0 * detector.rate_:g}% of {rows} are expected to be below."
        )
        unknown = " The first rows raise none." if np.isinf(detector.threshold_) else ""
        return words + unknown

    def learn(self, rows: Any, before: int) -> Outcome:
        """Score rows, and learn them."""
        blocks = self.estimator.process_blocks(rows)
        scores = np.concatenate([np.empty(0), *(block.scores for block in blocks)])
        unscored = len(rows) - len(scores)  # those at the beginning of the stream
        found = [
            (block, i, unscored + block.first - blocks[0].first + i)
            for block in blocks
            for i in block.unusual().tolist()
        ]
        worst = sorted(found, key=lambda one: one[0].scores[one[1]])[-MOST_EXPLAINED:]
        alarms = []
        for block, i, place in sorted(worst, key=lambda one: one[2]):
            alarm, texts = block.alarm(i), texts_of(rows, place)
            cells = self._worst_cells(alarm.columns, texts)
            where = before + place + 1, time.time()
            alarms.append(Alarm(*where, -alarm.score, -alarm.threshold, cells))
        threshold = -self.estimator.threshold_
        known = None if np.isinf(threshold) else threshold
        return Outcome(len(rows), -scores, known, len(found), alarms)

    def _worst_cells(self, columns: Mapping[Any, float], texts: Sequence[str]) -> tuple[Cell, ...]:
        """The cells that make a row improbable: none with less than half of what the worst has."""
        names = names_of(self.mixture, len(texts))
        keys = getattr(self.mixture, "feature_names_in_", range(len(texts)))
        places = {key: j for j, key in enumerate(keys)}
        worst = [*columns.items()][:MOST_CELLS]
        return tuple(
            Cell(names[places[key]], texts[places[key]], -score)
            for i, (key, score) in enumerate(worst)
            if i == 0 or score > 0.5 * worst[0][1]
        )
