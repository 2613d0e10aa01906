"""Initial parameters of the candidates of a selection, on a sample of rows in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np

from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Rows
from mixfold.core.source import Source, draw_rows
from mixfold.estimators._candidates import Candidate, sums_of
from mixfold.fitting.initialization import SampledParams
from mixfold.learners.further_search import MOST_BYTES, OF_SAMPLE
from mixfold.learners.neighbouring_starts import best_start, merge_starts, split_starts
from mixfold.models.limits_from_data import limited
from mixfold.models.mixture_model import MixtureParams, count_spurious
from mixfold.sources.array_source import ArraySource

FAILURES = (np.linalg.LinAlgError, ArithmeticError, InvalidInputError)
# nats per row and column by which a candidate may be behind the best one before it is dropped
MARGIN = 0.05
LEAST_MARGIN = 10.0  # a difference of BIC that is very strong evidence (Kass and Raftery 1995)
OF_SPLITS, OF_MERGES = 2**31 + 3, 2**31 + 4  # in seeds, where candidates and samples have others


@dataclass(frozen=True)
class InMemory:
    """All rows of a source, or as large a sample as is kept in memory, and how many there are."""

    rows: ArraySource
    length: int

    @property
    def whole(self) -> bool:
        """Whether these are all rows."""
        return self.rows.length == self.length

    @property
    def weight(self) -> float:
        """The weight of all rows of the source, estimated from the sample."""
        return self.rows.whole().total_weight() * self.length / self.rows.length


def read_in_memory(source: Source, seed: int) -> InMemory:
    """Read a source once, and keep all rows or a uniform sample of them."""
    most = max(1, MOST_BYTES // (8 * source.d))
    if isinstance(source, ArraySource) and source.length <= most:
        return InMemory(source, source.length)
    drawn = draw_rows(source.blocks(), most, np.random.default_rng([seed, OF_SAMPLE]), source.d)
    if drawn.length == 0:
        raise InvalidInputError("the data have no rows: at least one is needed")
    if drawn.length > most and not source.rereadable:
        raise InvalidInputError(
            f"these {drawn.length:,} rows can be read only once and do not fit into "
            f"{MOST_BYTES // 2**20} MiB, but candidates need several passes: give an array, a "
            "table or a file"
        )
    return InMemory(ArraySource(drawn.rows.x, drawn.rows.weight, source.columns), drawn.length)


@dataclass
class Starts:
    """Finds the initial parameters of candidates, from those with few components to many and back.

    Candidates are compared by `criterion`, on rows that are `held_out` if it is that. With `drop`,
    no search is made for those far behind the best.
    """

    memory: InMemory
    held_out: Rows | None
    criterion: str
    drop: bool
    n_init: int
    seed: int
    done: Callable[[], None] = lambda: None  # called after every search and every merge
    estimates: dict[tuple[str, int], float] = field(default_factory=dict)

    @property
    def best(self) -> float:
        """The best estimate of the criterion so far."""
        return min(self.estimates.values(), default=inf)

    def find(self, candidates: Sequence[Candidate]) -> None:
        """The starts of candidates with one covariance, in the order of their components."""
        for before, one in zip([None, *candidates[:-1]], candidates, strict=True):
            with working(one):
                self._prepare(one)
                self._split_and_search(before, one)
            self.done()
        for after, one in zip(candidates[:0:-1], candidates[-2::-1], strict=True):
            with working(one):
                self._merge(after, one)
            self.done()

    def _prepare(self, one: Candidate) -> None:
        """Set up the model, with limits and a prior that suit the rows."""
        settings, d = one.settings, self.memory.rows.d
        sample = settings.sample(settings.backend(d), self.memory.rows, self.n_init, self.seed)
        backend = limited(sample.backend, sample.rows)
        one.backend = settings.initialization.with_prior(backend, sample.rows, self.seed)

    def _split_and_search(self, before: Candidate | None, one: Candidate) -> None:
        assert one.backend is not None
        sample = one.settings.sample(one.backend, self.memory.rows, self.n_init, self.seed)
        rows = sample.rows()
        if before is not None and before.k == one.k - 1 and before.start is not None:
            assert before.backend is not None
            seed = [self.seed, OF_SPLITS, one.k]
            found = split_starts(before.backend, before.start.params, one.backend, rows, seed)
            self._compare(one, "split", [each.params for each in found], rows)
            if self._behind(one, rows):
                one.dropped = f"far behind the best in {self.criterion} after a split"
                return
        sampled = SampledParams(one.backend, sample)
        drawn = [sampled.params(number) for number in range(len(sampled))]
        self._compare(one, "search", drawn, rows)
        self._behind(one, rows)

    def _merge(self, after: Candidate, one: Candidate) -> None:
        if one.dropped or after.start is None or after.k != one.k + 1 or one.k == 1:
            return
        assert one.backend is not None
        assert after.backend is not None
        rows = one.settings.sample(one.backend, self.memory.rows, self.n_init, self.seed).rows()
        seed = [self.seed, OF_MERGES, one.k]
        found = merge_starts(after.backend, after.start.params, one.backend, rows, seed)
        self._compare(one, "merge", [each.params for each in found], rows)
        self._behind(one, rows)

    def _compare(self, one: Candidate, kind: str, drawn: list[Any], rows: Rows) -> None:
        assert one.backend is not None
        one.n_init += len(drawn) if kind == "search" else 0
        one.restarts += len(drawn) if kind != "search" else 0
        whole = len(rows) == self.memory.length
        one.start = best_start(one.backend, one.start, kind, drawn, rows, one.prior_strength, whole)

    def _behind(self, one: Candidate, rows: Rows) -> bool:
        """Whether a candidate is too far behind the best so far to win."""
        if one.start is None or not self.drop:
            return False
        one.estimate = self._estimate(one, one.start.params, rows)
        # components on few rows have any likelihood, and must not drop others
        spurious = count_spurious(one.model, one.start.params, [rows])
        self.estimates[one.covariance, one.k] = inf if spurious else one.estimate
        return one.estimate > self.best + self.margin

    def _estimate(self, one: Candidate, params: MixtureParams, rows: Rows) -> float:
        """The criterion of all rows, from a sample; that of held-out rows is -2 log L too."""
        assert one.backend is not None
        if self.held_out is not None:
            sums = sums_of(one.backend, params, self.held_out).scaled(self.memory.weight)
            return -2.0 * sums.log_likelihood
        sums = sums_of(one.backend, params, rows).scaled(self.memory.weight)
        return sums.criteria(one.model.n_parameters())[self.criterion]

    def drop_hopeless(self, candidates: Sequence[Candidate]) -> None:
        """Drop the candidates that are too far behind the best of all, before passes are made."""
        for one in candidates:
            if self.drop and not one.dropped and one.estimate > self.best + self.margin:
                one.dropped = f"far behind the best in {self.criterion} before passes over all rows"

    @property
    def margin(self) -> float:
        """By how much the criterion of a candidate may be above the best."""
        return LEAST_MARGIN + 2.0 * MARGIN * self.memory.weight * self.memory.rows.d


@contextmanager
def working(one: Candidate) -> Iterator[None]:
    """Count the time, and report failures of the candidate alone."""
    began = time.perf_counter()
    try:
        yield
    except FAILURES as error:
        one.dropped, one.error = f"it failed: {error}", error
    finally:
        one.seconds += time.perf_counter() - began
