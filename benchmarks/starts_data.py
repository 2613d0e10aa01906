"""learner="auto" against scikit-learn's best of ten starts on the tables of the data folder.

    MIXFOLD_DATA=FOLDER python benchmarks/starts_data.py --cache FILE --jobs 2

Rows are shuffled by the seed, at most 20,000 are used (`--all-rows`: all), a fifth is held out,
and columns are divided by their standard deviations. The gain is what the best of ten has above a
single Gaussian, in nats per held-out row; a difference is auto minus best of ten. Tables with fewer
than 1,000 rows follow in a table of their own, as differences in nats with the standard error over
the seeds. Pixels are left out.

Columns with fewer than 50 values, or a value that more than 1% of the rows hold, are left out, and
so are tables with fewer than two others: the density of a component on tied values has no bound, so
that the least variance decides, not the start. scikit-learn adds 1e-6 to variances, mixfold keeps
to the resolution of the data, and its densities are lower. `--all-columns` takes all columns;
`--same-floor` gives auto scikit-learn's `reg_covar`, which makes the least variances alike, but not
the same: most of the difference on tied values is still one of floors.

scikit-learn's scores are kept in the file of `--cache`, a JSON object by set, shape, K, seed and
rows, and each entry says what made it. mixfold's GaussianMixture gives scikit-learn's fits to
rounding for the same seed (a test shows it): with `--stand-in` it makes the ten fits, and
scikit-learn only one, to be timed. `--fill MINUTES` only fills the cache, cheap fits first;
`--cached-only` compares nothing that is not in it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.mixture import GaussianMixture as Original

from _tables import (
    IMAGES,
    Task,
    by_cell,
    continuous,
    fitted,
    heading,
    in_processes,
    mixture,
    names,
    options,
    shapes,
    single,
    split,
    standardised,
    table,
)
from mixfold import GaussianMixture

MOST_ROWS, SMALL, STARTS, LEAST_GAIN = 20_000, 1000, 10, 0.02
COMPONENTS, FEW_COMPONENTS = (3, 5, 10, 20, 30), (2, 3, 5, 10)
ROWS_PER_COMPONENT, FEW_ROWS_PER_COMPONENT = 50, 10
REG_COVAR = 1e-6  # scikit-learn's default


@dataclass(frozen=True, kw_only=True)
class SizedTask(Task):
    """A fit to n rows of d columns."""

    n: int
    d: int

    @property
    def key(self) -> str:
        """Its name in the cache."""
        return f"{self.name}|{self.shape}|{self.k}|{self.seed}|{self.n}"

    @property
    def small(self) -> bool:
        """Whether it belongs to the tables with few rows."""
        return self.n < SMALL

    @property
    def cost(self) -> float:
        """Proportional to the operations of an iteration of EM."""
        return self.n * self.k * self.d ** (2 if self.shape == "full" else 1)

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Training and held-out rows, standardised."""
        return standardised(*split(table(self.name), self.seed, self.n))


@dataclass(frozen=True)
class Best:
    """Held-out score of the best of ten, seconds of one scikit-learn fit, and what made it."""

    score: float
    seconds: float
    made_by: str


@dataclass(frozen=True)
class Outcome:
    """Scores per held-out row of auto and of a single Gaussian, and the seconds of auto."""

    task: SizedTask
    auto: float
    single: float
    seconds: float


def tables(all_columns: bool) -> list[str]:
    """All tables and projections of images, or what they are in continuous columns."""
    found = [name for name in names() if name not in IMAGES]
    if all_columns:
        return found
    return [name for name in map(continuous, found) if name is not None]


def sized_tasks(sets: list[str], seeds: int, most: int | None) -> list[SizedTask]:
    found = []
    for name in sets:
        n, d = table(name).shape
        n = min(n, most or n)
        components: tuple[int, ...] = COMPONENTS
        each = ROWS_PER_COMPONENT
        if n < SMALL:
            components, each = FEW_COMPONENTS, FEW_ROWS_PER_COMPONENT
        for shape in shapes(name):
            for k in (k for k in components if 0.8 * n >= each * k):
                found += [SizedTask(name, shape, k, seed, n=n, d=d) for seed in range(seeds)]
    return found


def best_of_ten(task: SizedTask, stand_in: bool) -> Best:
    """What scikit-learn reaches, or mixfold's estimator in its place."""
    train, held = task.rows()
    settings: dict[str, Any] = {
        "covariance_type": task.shape,
        "tol": 1e-5,
        "max_iter": 1000,
        "random_state": task.seed,
    }
    if not stand_in:
        model, seconds = fitted(Original(task.k, n_init=STARTS, **settings), train)
        return Best(float(model.score(held)), seconds / STARTS, "scikit-learn")
    _, seconds = fitted(Original(task.k, **settings), train)
    model, _ = fitted(GaussianMixture(task.k, n_init=STARTS, n_threads=1, **settings), train)
    return Best(float(model.score(held)), seconds, "mixfold.GaussianMixture")


def auto(task: SizedTask, reg_covar: float) -> Outcome:
    train, held = task.rows()
    base = float(single(task.shape, train, held).mean())
    model, seconds = fitted(mixture(task.shape, task.k, task.seed, reg_covar), train)
    return Outcome(task, float(model.score(held)), base, seconds)


class Cache:
    """The best of ten by task, in a file that is written as results come."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        read = json.loads(path.read_text()) if path is not None and path.exists() else {}
        self.found = {key: Best(**entry) for key, entry in read.items()}

    def fill(
        self, missing: list[SizedTask], make: Callable[[SizedTask], Best], jobs: int, until: float
    ) -> None:
        """Make what is missing, until a time has come."""
        for task, best in zip(missing, in_processes(make, missing, jobs), strict=True):
            self.found[task.key] = best
            if self._path is not None:
                entries = {key: asdict(entry) for key, entry in self.found.items()}
                self._path.write_text(json.dumps(entries, indent=0))
            if time.monotonic() > until:
                break


def compare(outcomes: list[Outcome], cache: Cache) -> tuple[np.ndarray, np.ndarray, str]:
    """Gains of the best of ten, differences, both by seed, and the seconds as cells."""
    best = [cache.found[o.task.key] for o in outcomes]
    gains = np.array([b.score - o.single for o, b in zip(outcomes, best, strict=True)])
    differences = np.array([o.auto - b.score for o, b in zip(outcomes, best, strict=True)])
    ours, theirs = np.mean([o.seconds for o in outcomes]), np.mean([b.seconds for b in best])
    return gains, differences, f"{ours:.2f} | {theirs:.2f}"


def line(outcomes: list[Outcome], cache: Cache) -> tuple[str, bool]:
    """The row of a cell, and whether it holds what is wanted."""
    gains, differences, seconds = compare(outcomes, cache)
    task, mean = outcomes[0].task, gains.mean()
    begin = f"| {task.name} | {task.n} | {task.d} | {task.shape} | {task.k} | {mean:.3f} "
    if task.small:
        error = differences.std(ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else np.inf
        cells = f"| {differences.mean():+.3f} | {error:.3f} | {differences.min():+.3f} "
        return begin + cells + f"| {seconds} |", bool(differences.mean() >= -2.0 * error)
    if mean < LEAST_GAIN:
        cells = f"| {differences.mean():+.4f} nats | {differences.min():+.4f} nats "
        return begin + cells + f"| {seconds} |", bool(differences.mean() >= -0.001)
    shares = 100.0 * differences / mean
    cells = f"| {shares.mean():+.2f} | {shares.min():+.2f} | {seconds} |"
    return begin + cells, bool(shares.mean() >= -0.5 and shares.min() >= -2.0)


def report(
    chosen: list[SizedTask],
    cache: Cache,
    work: Callable[[SizedTask], Outcome],
    jobs: int,
    title: str,
) -> None:
    print(title, flush=True)
    held, seen, slower = 0, 0, 0
    results = in_processes(work, chosen, jobs)
    for outcomes in by_cell(results):
        text, holds = line(outcomes, cache)
        print(text, flush=True)
        theirs = np.mean([cache.found[o.task.key].seconds for o in outcomes])
        slow = np.mean([o.seconds for o in outcomes]) > theirs
        held, seen = held + holds, seen + 1
        slower += bool(slow and outcomes[0].task.n >= 10_000)
    made = sorted({cache.found[task.key].made_by for task in chosen})
    print(f"\n{held} of {seen} cells hold what is wanted; best of ten made by {', '.join(made)};")
    print(f"auto takes longer than one fit in {slower} cells of at least 10,000 rows.\n")


def arguments() -> argparse.Namespace:
    parser = options(__doc__, 5)
    parser.add_argument("--cache", type=Path, help="file of scikit-learn's scores")
    parser.add_argument("--all-rows", action="store_true", help="not only 20,000 rows")
    parser.add_argument("--all-columns", action="store_true", help="discrete columns as well")
    parser.add_argument("--components", type=int, nargs="+", help="only these numbers")
    parser.add_argument("--same-floor", action="store_true", help="auto with reg_covar=1e-6")
    parser.add_argument("--stand-in", action="store_true", help="mixfold makes the ten fits")
    parser.add_argument("--cached-only", action="store_true", help="compare what is in the cache")
    parser.add_argument("--fill", type=float, metavar="MINUTES", help="only fill the cache")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    cache = Cache(given.cache)
    sets = given.sets or tables(given.all_columns)
    chosen = sized_tasks(sets, given.seeds, None if given.all_rows else MOST_ROWS)
    if given.components:
        chosen = [task for task in chosen if task.k in given.components]
    missing = [task for task in chosen if task.key not in cache.found]
    make = partial(best_of_ten, stand_in=given.stand_in)
    work = partial(auto, reg_covar=REG_COVAR if given.same_floor else 0.0)
    if given.fill is not None:
        missing.sort(key=lambda task: (task.seed, task.cost))
        cache.fill(missing, make, given.jobs, time.monotonic() + 60.0 * given.fill)
        return
    if given.cached_only:
        chosen = [task for task in chosen if task.key in cache.found]
    else:
        cache.fill(missing, make, given.jobs, float("inf"))
    begin = ("set", "n", "d", "shape", "K", "gain of best of ten, nats")
    end = ("auto s", "one scikit-learn fit s")
    large = heading(*begin, "auto, % of the gain (wanted >= -0.5)", "worst seed (>= -2)", *end)
    little = heading(*begin, "auto, nats", "standard error", "worst seed", *end)
    for small, title in ((False, large), (True, little)):
        part = [task for task in chosen if task.small == small]
        if part:
            report(part, cache, work, given.jobs, title)


if __name__ == "__main__":
    main()
