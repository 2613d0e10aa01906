"""Step sizes of rows that have weights.

A row of weight v counts as v rows, and a common factor of all weights cancels: weights are counted
in units of their mean over the rows so far. With steps 1/n the statistics are then the weighted
mean of all rows, exactly.
"""

from __future__ import annotations

from math import exp, floor

import numpy as np

from mixfold.core.checks import HIGHEST, check_array, check_count, check_least, check_whole
from mixfold.core.rows import Array, Rows
from mixfold.core.schedule import Schedule
from mixfold.core.value import replace, value

# terms of a sum over step numbers that are added exactly, before they are grouped
EXACT_TERMS = 2**16
TERMS_PER_DOUBLING = 2**10
ROWS_PER_DIRECTION = 5


@value
class InParallel:
    """The counts of one of several workers, whose rows stand for those of all workers.

    After each of `thresholds` rows, a row stands for one row more. `rows` and `weight` are counted
    in this way; `multiple` is the number of rows that the next row or batch stands for.
    """

    thresholds: Array
    rows: int
    weight: float
    multiple: int

    def check(self) -> None:
        """Raise an error for invalid counts."""
        check_array("thresholds", self.thresholds, (len(self.thresholds),), 0.0, np.inf)
        check_count("rows", self.rows)
        check_least("weight", self.weight, 0.0, HIGHEST)
        check_whole("multiple", self.multiple)

    def multiples(self, prior_count: float, n: int) -> np.ndarray:
        """The number of rows that each of the next n rows stands for."""
        found, rows, filled = np.empty(n, dtype=np.int64), prior_count + self.rows, 0
        while filled < n:
            multiple = 1 + int(np.searchsorted(self.thresholds, rows, side="right"))
            most = float(n - filled)
            if multiple <= len(self.thresholds):
                most = min(most, np.ceil((self.thresholds[multiple - 1] - rows) / multiple))
            more = max(1, int(most))
            found[filled : filled + more] = multiple
            rows, filled = rows + more * multiple, filled + more
        return found

    def next_batch(self, prior_count: float) -> InParallel:
        """The counts with the multiple of the next batch."""
        return replace(self, multiple=int(self.multiples(prior_count, 1)[0]))


@value
class RowCounts:
    """The numbers of rows that the step size depends on: the prior count, and rows learned.

    `rows` are those of positive weight, `weight` is their total. After a fit, `after_fit` is true,
    and each new row counts as much as each row of the fit.
    """

    prior_count: float
    rows: int = 0
    weight: float = 0.0
    after_fit: bool = False
    parallel: InParallel | None = None

    def check(self) -> None:
        """Raise an error for invalid counts."""
        check_least("prior_count", self.prior_count, 0.0)
        check_count("rows", self.rows)
        check_least("weight", self.weight, 0.0, HIGHEST)
        if self.parallel is not None:
            self.parallel.check()

    @property
    def multiple(self) -> int:
        """How many rows a row of the next batch stands for."""
        return 1 if self.parallel is None else self.parallel.multiple

    @property
    def behind(self) -> tuple[int, float]:
        """Rows and weight on which the next step size is based."""
        if self.parallel is None:
            return self.rows, self.weight
        return self.parallel.rows, self.parallel.weight

    @property
    def mean_weight(self) -> float:
        """The mean weight of a row; 1 before the first row."""
        rows, weight = self.behind
        return weight / rows if weight > 0.0 else 1.0

    def multiples(self, n: int) -> np.ndarray:
        """How many rows each of the next n rows stands for."""
        if self.parallel is None:
            return np.ones(n, dtype=np.int64)
        return self.parallel.multiples(self.prior_count, n)

    def in_parallel(self, thresholds: Array) -> RowCounts:
        """The counts for one of several workers."""
        parallel = InParallel(thresholds, self.rows, self.weight, 1)
        return replace(self, parallel=parallel.next_batch(self.prior_count))

    @property
    def unweighted(self) -> bool:
        """Whether every row so far had weight one."""
        return self.parallel is None and self.weight == self.rows

    def after(self, weights: Array | int) -> RowCounts:
        """The counts after more rows with positive weights, or a number of rows without weights."""
        if isinstance(weights, int):
            if self.unweighted:
                n = self.rows + weights
                return replace(self, rows=n, weight=float(n))
            weights = np.ones(weights)
        rows, weight = self.rows + len(weights), _running_sum(self.weight, weights)[-1]
        after = replace(self, rows=rows, weight=float(weight))
        if self.parallel is None:
            return after
        multiples = self.multiples(len(weights))
        parallel = replace(
            self.parallel,
            rows=self.parallel.rows + int(multiples.sum()),
            weight=float(_running_sum(self.parallel.weight, multiples * weights)[-1]),
        )
        return replace(after, parallel=parallel.next_batch(self.prior_count))

    def with_rows(self, rows: Rows) -> RowCounts:
        """The counts with the number of buffered rows, but not yet their weight."""
        n = len(rows) if rows.weight is None else len(positive_weights(rows))
        after = replace(self, rows=self.rows + n)
        if self.parallel is None:
            return after
        stand_for = self.parallel.rows + n * self.multiple
        return replace(after, parallel=replace(self.parallel, rows=stand_for))

    def with_weight(self, weight: float) -> RowCounts:
        """The counts with the weight of the buffered rows."""
        after = replace(self, weight=self.weight + weight)
        if self.parallel is None:
            return after
        stand_for = self.parallel.weight + weight * self.multiple
        parallel = replace(self.parallel, weight=stand_for)
        return replace(after, parallel=parallel.next_batch(self.prior_count))


def _running_sum(first: float, terms: Array) -> Array:
    """Running sums of the terms; the bits do not depend on how the terms are divided."""
    return np.asarray(np.add.accumulate(np.append(first, terms)))


def positive_weights(rows: Rows) -> Array:
    """The positive weights."""
    weights = rows.weights()
    return weights[weights > 0.0]


def weights_or_number(rows: Rows) -> Array | int:
    """The positive weights, or the number of rows if there are no weights."""
    return len(rows) if rows.weight is None else positive_weights(rows)


def weighted_step(gamma: Array | float, share: Array | float) -> Array:
    """The step size of `share` rows, if that of one row is gamma.

    A row of weight gamma / (1 - gamma), where all before it weigh 1, takes the step gamma; `share`
    rows weigh `share` times as much.
    """
    return np.minimum(share * gamma / (1.0 + (share - 1.0) * gamma), 1.0)


def relative_weights(counts: RowCounts, weights: Array) -> Array:
    """The weights of more rows, in units of their running mean."""
    n = counts.rows + np.arange(1.0, len(weights) + 1.0)
    return np.asarray(weights / (_running_sum(counts.weight, weights)[1:] / n))


def row_steps(schedule: Schedule, counts: RowCounts, weights: Array | int) -> Array:
    """The step sizes of rows that are learned one by one after those of `counts`.

    The rows have these positive weights, or are a number of rows without weights.
    """
    if isinstance(weights, int):
        if counts.unweighted:
            before = counts.prior_count + np.arange(counts.rows, counts.rows + float(weights))
            return _gamma(schedule, counts, before)
        weights = np.ones(weights)
    multiples = counts.multiples(len(weights))
    rows, weight = counts.behind
    n = rows + np.cumsum(multiples, dtype=np.float64)
    total = _running_sum(weight, multiples * weights)[1:]
    share = multiples * weights / (total / n)
    return weighted_step(_gamma(schedule, counts, counts.prior_count + (n - share)), share)


def batch_step(schedule: Schedule, counts: RowCounts, weight: float, size: float) -> float:
    """The step size of a batch of a weight; `counts` has its rows but not their weight.

    A batch of `size` rows of mean weight has the step size of the schedule, which counts batches.
    """
    rows, known = counts.behind
    own = counts.multiple * weight
    total = known + own
    share = own / (total / rows if total > 0.0 else 1.0)
    before = (counts.prior_count + (rows - share)) / size
    gamma = float(_gamma(schedule, counts, np.array([before]))[0])
    return float(weighted_step(gamma, share / size))


def rows_of_window(k: int, d: int) -> int:
    """The smallest number of rows over which steps should average, to forget no component."""
    return ROWS_PER_DIRECTION * k * (d + 1)


def rows_to_step(schedule: Schedule, size: int, step: float) -> float:
    """The number of rows after which step sizes are at most `step`; may be infinite."""
    updates = np.append(0.0, np.floor(2.0 ** np.arange(0.0, 40.0, 0.125)))
    short = schedule(updates + 1.0) <= step
    return float(updates[short.argmax()] * size) if short.any() else np.inf


def _gamma(schedule: Schedule, counts: RowCounts, before: Array) -> Array:
    """Step sizes of the schedule after some rows; rows of a fit are not forgotten sooner."""
    numbers = np.maximum(before, 0.0) + 1.0  # a difference may be negative by rounding
    gamma = schedule(numbers)
    if not counts.after_fit:
        return gamma
    last = schedule(np.array([np.inf]))
    return np.minimum(gamma, np.fmax(1.0 / numbers, last))


def retained(schedule: Schedule, before: RowCounts, after: RowCounts, size: float) -> float:
    """The fraction of the statistics at `before` that is left at `after`."""
    began, reached = before.behind[1], after.behind[1]
    first = (before.prior_count + began / after.mean_weight) / size
    number = (reached - began) / after.mean_weight / size
    whole = floor(number)
    log_retained = 0.0
    with np.errstate(divide="ignore"):
        for starts, lengths in _runs(first, whole):
            middle = starts + 0.5 * (lengths - 1.0)
            terms = np.log1p(-_gamma(schedule, before, middle))
            log_retained += float(lengths @ terms)
        if number > whole:
            gamma = _gamma(schedule, before, np.array([first + whole]))
            log_retained += float(np.log1p(-weighted_step(gamma, number - whole))[0])
    return exp(log_retained)


def _runs(first: float, n: int) -> list[tuple[Array, Array]]:
    """Split the numbers first, first + 1, ... into runs that grow longer."""
    exact = min(n, EXACT_TERMS)
    runs = [(first + np.arange(float(exact)), np.ones(exact))]
    if n > exact:
        spread = max(2, round(TERMS_PER_DOUBLING * np.log2((first + n) / (first + exact))))
        ends = np.geomspace(first + exact, first + n, spread)
        ends[0], ends[-1] = first + exact, first + n
        runs.append((ends[:-1], np.diff(ends)))
    return runs
