"""What a report needs to know about the rows, from one pass over them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array, Rows
from mixfold.core.source import Source
from mixfold.report._columns import Column, columns_of
from mixfold.report._component_moments import ComponentMoments, Profiles
from mixfold.report._models import component_names, one_component
from mixfold.report._row_bins import RowBins
from mixfold.report._simulated import Simulated, simulated
from mixfold.report._smallest_keys import SmallestKeys
from mixfold.report.progress import Progress
from mixfold.sources.array_source import ArraySource

SAMPLE_ROWS = 10_000
SAMPLE_CELLS = 4_000_000
STRANGEST = 10
MOST_MOVING = 400  # columns whose means are followed over the rows


@dataclass(frozen=True)
class SomeRows:
    """Some of the rows: their numbers from 0 on, cells, log density, and responsibilities."""

    numbers: NDArray[np.int64]
    x: Array
    log_density: Array
    responsibilities: Array

    def __len__(self) -> int:
        return len(self.x)

    @property
    def labels(self) -> NDArray[np.intp]:
        """The most probable component of each row; noise has the last number."""
        return np.asarray(self.responsibilities.argmax(axis=1))


@dataclass(frozen=True)
class Stretches:
    """Rows in their order, divided into stretches: numbers of rows, and means over them.

    `columns` are the numbers of the columns of `means` (m, c), the means of the observed cells, and
    `seen` (m, c) how many there are.
    """

    rows: Array
    log_density: Array
    responsibilities: Array
    columns: NDArray[np.intp]
    means: Array
    seen: Array


@dataclass
class Survey:
    """A fitted mixture and what one pass over rows has found.

    `selection` is the estimator that has compared several mixtures, if there was one. `labelled`
    and `certainty` (K,) are how many rows are most probable in each component, and the sum of
    their largest responsibilities; with noise, the last is that of noise.
    """

    mixture: Any
    selection: Any
    description: str
    seed: int
    columns: list[Column]
    names: list[str]
    n: int
    n_incomplete: int
    n_missing: NDArray[np.int64]
    log_likelihood: float
    log_density_squares: float
    entropy: float
    weights: Array
    labelled: Array
    certainty: Array
    profiles: Profiles
    sample: SomeRows
    strangest: SomeRows
    stretches: Stretches

    @property
    def k(self) -> int:
        """The number of components, with noise."""
        return len(self.names)

    @property
    def model(self) -> Any:
        """The fitted model."""
        return self.mixture.model_

    @property
    def mean(self) -> float:
        """The log-likelihood per row."""
        return self.log_likelihood / self.n

    @property
    def deviation(self) -> float:
        """The standard deviation of the log density of rows."""
        return float(max(self.log_density_squares / self.n - self.mean**2, 0.0) ** 0.5)

    @property
    def is_complete_sample(self) -> bool:
        """Whether the sample has all rows."""
        return len(self.sample) == self.n

    @property
    def named(self) -> bool:
        """Whether columns have names of their own."""
        return getattr(self.mixture, "feature_names_in_", None) is not None

    @cached_property
    def simulated(self) -> Simulated | None:
        """Rows drawn from the model, with holes like those of the sample; None if impossible."""
        return simulated(self.mixture, self.sample.x, self.seed)

    @cached_property
    def one_component(self) -> float | None:
        """The log-likelihood per row of the sample under one component of the same family."""
        return one_component(self.mixture, self.sample.x)


class _Recorded(Source):
    """A source that remembers the block it gave last."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.columns, self.rereadable = source.columns, source.rereadable
        self.latest = Rows(np.empty((0, source.d)))

    @property
    def d(self) -> int:
        return self.source.d

    @property
    def length(self) -> int | None:
        return self.source.length

    def blocks(self, start: int = 0, length: int | None = None) -> Iterator[Rows]:
        for rows in self.source.blocks(start, length):
            if len(rows):
                self.latest = rows
                yield rows


class _Sums:
    """Everything that is summed or kept while rows are read."""

    def __init__(self, columns: list[Column], k: int, seed: int) -> None:
        d = len(columns)
        self.columns, self.rng = columns, np.random.default_rng([seed, 1])
        self.n = self.n_incomplete = 0
        self.n_missing = np.zeros(d, dtype=np.int64)
        self.log_likelihood = self.squares = self.entropy = 0.0
        self.weights, self.labelled, self.certainty = np.zeros(k), np.zeros(k), np.zeros(k)
        self.moments = ComponentMoments(columns, k)
        self.sample = SmallestKeys(max(1, min(SAMPLE_ROWS, SAMPLE_CELLS // d)))
        self.strangest = SmallestKeys(STRANGEST)
        moving = [j for j, column in enumerate(columns) if _has_mean(column)]
        self.moving = np.array(moving[:MOST_MOVING], dtype=np.intp)
        self.bins = RowBins(1 + k + 2 * len(self.moving))

    def update(self, x: Array, log_density: Array, r: Array) -> None:
        """Add a block of rows."""
        missing = np.isnan(x)
        numbers = np.arange(self.n, self.n + len(x), dtype=np.int64)
        self.n += len(x)
        self.n_incomplete += int(missing.any(axis=1).sum())
        self.n_missing += missing.sum(axis=0)
        self.log_likelihood += float(log_density.sum())
        self.squares += float(np.square(log_density).sum())
        self.entropy -= float((r * np.log(np.maximum(r, 1e-300))).sum())
        self.weights += r.sum(axis=0)
        labels, largest = r.argmax(axis=1), r.max(axis=1)
        self.labelled += np.bincount(labels, minlength=r.shape[1])
        self.certainty += np.bincount(labels, largest, minlength=r.shape[1])
        self.moments.update(x, r)
        self.sample.update(self.rng.random(len(x)), numbers, x, log_density, r)
        self.strangest.update(log_density, numbers, x, log_density, r)
        assert self.moments.shift is not None
        some = x[:, self.moving] - self.moments.shift[self.moving]
        seen = ~missing[:, self.moving]
        parts = [log_density[:, None], r, np.where(seen, some, 0.0), seen]
        self.bins.update(np.hstack(parts))

    def stretches(self) -> Stretches:
        """Means over stretches of rows."""
        rows, sums = self.bins.found(least=max(1, min(20, self.n // 8)))
        k, c = len(self.weights), len(self.moving)
        seen = sums[:, 1 + k + c :]
        assert self.moments.shift is not None
        means = sums[:, 1 + k : 1 + k + c] / np.where(seen > 0, seen, np.nan)
        means += self.moments.shift[self.moving]
        each = rows[:, None]
        return Stretches(
            rows, sums[:, 0] / rows, sums[:, 1 : 1 + k] / each, self.moving, means, seen
        )


def _has_mean(column: Column) -> bool:
    return column.kind != "angle" and len(column.levels) <= 2


def survey(
    estimator: Any, rows: Any, seed: int, description: str, progress: Progress | None = None
) -> Survey:
    """Read the rows once, in blocks, and keep what sections of the report need."""
    check_is_fitted(estimator)
    mixture = getattr(estimator, "best_estimator_", estimator)
    columns, names = columns_of(mixture), component_names(mixture)
    source = _Recorded(mixture.open_rows(rows))
    sums = _Sums(columns, len(names), seed)
    for log_density, r in mixture.iter_posteriors(source):
        x = np.asarray(source.latest.on_host().x, dtype=np.float64)
        sums.update(x, np.asarray(log_density, dtype=np.float64), np.asarray(r))
        if progress is not None:
            progress(sums.n, source.length)
    if sums.n == 0:
        raise InvalidInputError("the data have no rows: a report needs at least one")
    return Survey(
        mixture,
        estimator if estimator is not mixture else None,
        description,
        seed,
        columns,
        names,
        sums.n,
        sums.n_incomplete,
        sums.n_missing,
        sums.log_likelihood,
        sums.squares,
        sums.entropy,
        sums.weights / sums.n,
        sums.labelled,
        sums.certainty,
        sums.moments.found(),
        _kept(sums.sample),
        _in_order_of_density(_kept(sums.strangest)),
        sums.stretches(),
    )


def _kept(rows: SmallestKeys) -> SomeRows:
    _, numbers, x, log_density, r = rows.found()
    return SomeRows(
        numbers.astype(np.int64), *(np.asarray(a, dtype=np.float64) for a in (x, log_density, r))
    )


def _in_order_of_density(rows: SomeRows) -> SomeRows:
    order = np.argsort(rows.log_density, kind="stable")
    return SomeRows(
        rows.numbers[order], rows.x[order], rows.log_density[order], rows.responsibilities[order]
    )


def as_rows(x: Array, survey: Survey) -> ArraySource:
    """Rows of numbers as the mixture reads them."""
    names = [column.name for column in survey.columns] if survey.named else None
    return ArraySource(x, None, names)
