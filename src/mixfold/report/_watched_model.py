"""A mixture that learns a stream, and says which rows are unusual before it learns them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.report._alarm import Alarm, Cell, EmpiricalQuantile
from mixfold.report._cells_of_rows import names_of, numbers_of, texts_of

FIRST_PER_COMPONENT, FIRST = 20, 100  # rows that are learned before any is scored
MOST_EXPLAINED = 20  # alarms of one batch
MOST_CELLS = 3  # that are named in an alarm


@dataclass(frozen=True)
class Outcome:
    """What was found in a batch of rows.

    `log_density` are the scores of the rows, in their order, before they were learned; none at the
    beginning of the stream. `n_alarms` counts all alarms, of which the worst are in `alarms`.
    """

    n: int
    log_density: Array
    threshold: float | None = None
    n_alarms: int = 0
    alarms: Sequence[Alarm] = ()


class WatchedModel(Protocol):
    """What the live page needs of a model: one of another kind has these members."""

    mixture: Any  # the mixture that learns, whose parameters are shown

    @property
    def threshold_words(self) -> str:
        """How the threshold comes about."""
        ...

    def learn(self, rows: Any) -> Outcome:
        """Score rows, an Arrow table or an array, and learn them; no effect after an error."""
        ...

    def state(self) -> Any:
        """What is to be saved besides the mixture, as a value."""
        ...

    def restore(self, state: Any) -> None:
        """Continue from what `state` has returned."""
        ...


class MixtureWithQuantile:
    """A mixture with an empirical quantile of the latest log-densities as the threshold."""

    def __init__(self, mixture: Any, quantile: EmpiricalQuantile) -> None:
        self.mixture, self.quantile = mixture, quantile

    @property
    def threshold_words(self) -> str:
        """How the threshold comes about."""
        quantile, needed = self.quantile, self.quantile.scores_needed
        words = (
            f"A row raises an alarm if its log-density is below that of all but "
            f"{100.0 * quantile.rate:g}% of the latest {quantile.window:,} rows."
        )
        return f"{words} {needed:,} more rows are needed first." if needed else words

    def learn(self, rows: Any) -> Outcome:
        """Score rows, and learn them."""
        if not self._is_ready():
            self.mixture.partial_fit(rows)
            return Outcome(len(rows), np.empty(0))
        scores = np.asarray(self.mixture.score_samples(rows), dtype=np.float64)
        threshold = self.quantile.threshold
        below = np.flatnonzero(scores < (-np.inf if threshold is None else threshold))
        worst = np.sort(below[np.argsort(scores[below], kind="stable")][:MOST_EXPLAINED])
        alarms = self._alarms(rows, worst, scores, threshold or 0.0) if len(worst) else ()
        self.mixture.partial_fit(rows)
        self.quantile = self.quantile.after(scores)
        return Outcome(len(rows), scores, threshold, len(below), alarms)

    def _is_ready(self) -> bool:
        """Whether enough rows are learned for the next ones to be scored."""
        needed = max(FIRST, FIRST_PER_COMPONENT * self.mixture.n_components)
        return bool(self.mixture.__sklearn_is_fitted__() and self.mixture.n_rows_ >= needed)

    def _alarms(
        self, rows: Any, chosen: NDArray[np.intp], scores: Array, threshold: float
    ) -> tuple[Alarm, ...]:
        now, before = time.time(), self.mixture.n_rows_
        some = rows[chosen] if isinstance(rows, np.ndarray) else rows.take(chosen)
        names = names_of(self.mixture, len(texts_of(some, 0)))
        contributions = self._contributions(some)
        return tuple(
            Alarm(
                before + int(row) + 1,
                now,
                float(scores[row]),
                threshold,
                _worst_cells(names, texts_of(some, i), contributions[i]),
            )
            for i, row in enumerate(chosen)
        )

    def _contributions(self, rows: Any) -> Array:
        """What every cell contributes to the log-density; NaN where that is not known."""
        try:
            return numbers_of(_as_arrow(self.mixture.explain(rows)))
        except InvalidInputError:  # of models without conditional distributions
            return np.full((len(rows), len(texts_of(rows, 0))), np.nan)

    def state(self) -> EmpiricalQuantile:
        """The scores behind the threshold."""
        return self.quantile

    def restore(self, state: EmpiricalQuantile) -> None:
        """Continue with these scores."""
        self.quantile = state


def _as_arrow(found: Any) -> Any:
    """An array, or a table of any library as an Arrow table."""
    if isinstance(found, np.ndarray) or hasattr(found, "num_columns"):
        return found
    return found.to_numpy(dtype=np.float64)


def _worst_cells(names: Sequence[str], texts: Sequence[str], found: Array) -> tuple[Cell, ...]:
    """The cells with the smallest contributions; only those that make the row less probable."""
    order = [int(j) for j in np.argsort(found, kind="stable") if not np.isnan(found[j])]
    order = [j for j in order[:MOST_CELLS] if j == order[0] or found[j] < 0.5 * found[order[0]]]
    return tuple(Cell(names[j], texts[j], float(found[j])) for j in order)
