"""Tables of the data folder as arrays, and held-out gains over a single Gaussian.

A table is its numeric columns as float64, without rows that have missing cells. Columns that
number or label the rows are left out, and so are columns of one or two values: a Gaussian that
takes one of two values has no largest density, so that only the floor of the variances would be
compared. Images are their pixels for diagonal covariances, and 30 principal components
(`NAME pc`) for full ones. `NAME continuous` is a table without the columns that have fewer than 50
values, or a value that more than 1% of the rows hold.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, product
from typing import Any, Protocol, TypeVar

import numpy as np
from scipy.linalg import eigh

from mixfold import Gaussian, Mixture
from mixfold.core.errors import DegenerateComponentsWarning
from mixfold.datasets import data_home
from mixfold.experiments.templates import read_table

warnings.filterwarnings("ignore", category=DegenerateComponentsWarning)  # tied columns

NUMBERS_OF_ROWS = {"id", "ID", "Id", "case.id", "utterance", "Subject", "School", "rat"}
LABELS = {"class", "anomaly", "digit", "status", "type", "low", "dvid", "evid", "policePrecinct"}
IMAGES = {
    "devanagari": "X_train",
    "fashion_mnist": "X_train",
    "fruits360_10c_32x32": "X_train",
    "isolet_part_1_5": "X_isolet1",
    "mnist": "X_train",
    "notmnist_10k": "X",
    "svhn_crop_5k": "X_train",
}
PROJECTED, CONTINUOUS = " pc", " continuous"
PROJECTIONS, MOST_IMAGES = 30, 10_000
LEAST_ROWS, LEAST_VALUES, HELD_OUT = 70, 30, 0.2
CONTINUOUS_VALUES, LARGEST_TIE = 50, 0.01
SHAPES = ("full", "diag")

Scores = np.ndarray
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Task:
    """A table, a shape of covariances, K, a seed, how many rows, and the learner of a stream."""

    name: str
    shape: str
    k: int
    seed: int
    most: int | None = None
    learner: str = "auto"

    @property
    def cell(self) -> tuple[Any, ...]:
        """What it has in common with the tasks of other seeds."""
        return self.name, self.learner, self.shape, self.k


class HasCell(Protocol):
    """A task that knows its cell."""

    @property
    def cell(self) -> tuple[Any, ...]:
        """What it has in common with the tasks of other seeds."""


class Result(Protocol):
    """What was measured in a task."""

    @property
    def task(self) -> HasCell:
        """The task."""


ResultT = TypeVar("ResultT", bound=Result)


def names() -> list[str]:
    """Tables that are large enough, then images."""
    found = [path.stem for path in sorted(data_home().glob("*.parquet"))]
    tables = [name for name in found if _is_usable(table(name))]
    return tables + sorted(IMAGES) + [name + PROJECTED for name in sorted(IMAGES)]


def _is_usable(x: np.ndarray) -> bool:
    """Whether there are 70 complete rows and a column of 30 values: others are only counts."""
    return len(x) >= LEAST_ROWS and max(len(np.unique(c)) for c in x.T) >= LEAST_VALUES


def shapes(name: str) -> tuple[str, ...]:
    """The covariances that are fitted: no full ones for pixels, only these for projections."""
    if name in IMAGES:
        return ("diag",)
    return ("full",) if name.endswith(PROJECTED) else SHAPES


@lru_cache(maxsize=4)
def table(name: str, least_values: int = 3) -> np.ndarray:
    """Rows of a table or of images, columns with fewer values left out."""
    if name.removesuffix(PROJECTED) in IMAGES:
        return _images(name)
    if name.endswith(CONTINUOUS):
        x = table(name.removesuffix(CONTINUOUS), least_values)
        return np.asarray(x[:, [_is_continuous(column) for column in x.T]])
    columns = [c for c in _columns(name) if len(np.unique(c[np.isfinite(c)])) >= least_values]
    if not columns:
        return np.empty((0, 0))
    x = np.column_stack(columns)
    return np.asarray(x[np.isfinite(x).all(axis=1)])


def continuous(name: str) -> str | None:
    """The table in its continuous columns, by name: None with fewer than two of them.

    They have many values, none of which is held by many rows.
    """
    x = table(name)
    number = sum(map(_is_continuous, x.T))
    if number < 2:
        return None
    return name if number == x.shape[1] else name + CONTINUOUS


def _is_continuous(column: np.ndarray) -> bool:
    counts = np.unique(column, return_counts=True)[1]
    return len(counts) >= CONTINUOUS_VALUES and counts.max() <= LARGEST_TIE * len(column)


def _columns(name: str) -> Iterator[np.ndarray]:
    import pyarrow as pa

    data = read_table(name, None)
    for field in data.schema:
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        if number and field.name not in NUMBERS_OF_ROWS | LABELS:
            yield data[field.name].cast(pa.float64()).to_numpy(zero_copy_only=False)


def _images(name: str) -> np.ndarray:
    plain = name.removesuffix(PROJECTED)
    with np.load(data_home() / f"{plain}.npz") as arrays:
        x = arrays[IMAGES[plain]]
    rows = np.random.default_rng(0).permutation(len(x))[:MOST_IMAGES]
    x = x[rows].astype(np.float64)
    if plain == name:
        return np.asarray(x[:, np.ptp(x, axis=0) > 0])
    d = x.shape[1]
    _, vectors = eigh(np.cov(x, rowvar=False), subset_by_index=[d - PROJECTIONS, d - 1])
    return np.asarray((x - x.mean(axis=0)) @ vectors)


def split(x: np.ndarray, seed: int, most: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Training and held-out rows in random order, of at most `most` rows."""
    rows = np.random.default_rng(seed).permutation(len(x))[:most]
    held = int(HELD_OUT * len(rows))
    return x[rows[held:]], x[rows[:held]]


def standardised(train: np.ndarray, held: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both in units of the training rows' standard deviations."""
    keep = np.ptp(train, axis=0) > 0
    mean, scale = train[:, keep].mean(axis=0), train[:, keep].std(axis=0)
    return (train[:, keep] - mean) / scale, (held[:, keep] - mean) / scale


def mixture(shape: str, k: int, seed: int, reg_covar: float = 0.0, **settings: Any) -> Mixture:
    """A Gaussian mixture that uses one thread."""
    family = Gaussian(shape, reg_covar=reg_covar)
    return Mixture(family, k, random_state=seed, n_threads=1, **settings)


def fitted(model: Any, x: np.ndarray) -> tuple[Any, float]:
    """The fitted model and the seconds, without warnings."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x)
    return model, time.perf_counter() - began


def streamed(model: Mixture, x: np.ndarray, block: int) -> Mixture:
    """The model after one pass of `partial_fit` over blocks of rows, without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for begin in range(0, len(x), block):
            model.partial_fit(x[begin : begin + block])
    return model


def single(shape: str, train: np.ndarray, held: np.ndarray) -> Scores:
    """Log densities of the held-out rows under one Gaussian."""
    return np.asarray(fitted(mixture(shape, 1, 0), train)[0].score_samples(held))


def gain(scores: Scores, base: Scores) -> tuple[float, float]:
    """Nats per row above the base, and their standard error."""
    above = scores - base
    return float(above.mean()), float(above.std() / np.sqrt(len(above)))


def in_processes(work: Callable[[T], R], tasks: Iterable[T], jobs: int) -> Iterator[R]:
    """The results in the order of the tasks, from processes of one thread each."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(work, tasks)


def tasks(sets: Iterable[str], given: argparse.Namespace) -> list[Task]:
    """Every table with its shapes, and with the components and seeds that were given."""
    return [
        Task(name, shape, k, seed, given.most)
        for name in sets
        for shape in shapes(name)
        for k, seed in product(given.components, range(given.seeds))
    ]


def by_cell(results: Iterable[ResultT]) -> Iterator[list[ResultT]]:
    """Results of the same cell, which follow one another, together."""
    return (list(group) for _, group in groupby(results, lambda result: result.task.cell))


def options(description: str | None, seeds: int) -> argparse.ArgumentParser:
    """A parser with the options of all scripts."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", help="names of tables; default all")
    parser.add_argument("--seeds", type=int, default=seeds, help="number of seeds")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    return parser


def stream_options(description: str | None) -> argparse.ArgumentParser:
    """A parser with the options of scripts that compare streams with fits."""
    parser = options(description, 5)
    parser.add_argument("--components", type=int, nargs="+", default=[3, 5, 10])
    parser.add_argument("--most", type=int, help="rows of shuffled tables; default all")
    return parser


def heading(*columns: str) -> str:
    """The first two lines of a Markdown table."""
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"
