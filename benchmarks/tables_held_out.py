"""Held-out likelihood of mixed tables: families chosen by column against Gaussians for all.

    MIXFOLD_DATA=... python benchmarks/tables_held_out.py [TABLE ...]

Nats per held-out row, of a fifth of the rows, in the same base measure. Columns for which "auto"
chose a density have densities in both. For the others, both have probabilities: the Gaussians are
fitted to zeros and ones of all levels (one column if there are two), and the probability of a level
is its density divided by the sum of those of all levels, in every component; a count has the
integral from half below to half above it, and zero that of all that is below one half. Held-out
rows with levels that are not in the training rows, which the mixture refuses, are left out of both
and counted over the seeds. Missing cells are integrated out.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
from scipy.special import log_ndtr, logsumexp
from scipy.stats import norm

from _mixed_tables import LEFT_OUT, frame
from _tables import HELD_OUT, heading
from mixfold import Gaussian, Mixture

COMPONENTS, SEEDS = (3, 5), 3
COUNTS = {"Poisson", "NegativeBinomialSizes"}


class Column:
    """How Gaussians describe a column: a density, counts, or levels."""

    def __init__(self, name: str, choice: Any) -> None:
        self.name, self.levels = name, choice.levels
        self.counts = type(choice.family).__name__ in COUNTS

    @property
    def points(self) -> np.ndarray:
        """The levels as zeros and ones."""
        assert self.levels is not None
        number = len(self.levels)
        return np.eye(number) if number > 2 else np.arange(float(number))[:, None]

    def numbers(self, values: Any) -> np.ndarray:
        """The columns of the Gaussians."""
        if self.levels is None:
            return np.asarray(values, dtype=np.float64)[:, None]
        codes = self.codes(values)
        found = self.points[codes]
        found[codes < 0] = np.nan
        return np.asarray(found)

    def codes(self, values: Any) -> np.ndarray:
        """The numbers of the levels; -1 where the cell is missing."""
        assert self.levels is not None
        known = {level: i for i, level in enumerate(self.levels)}
        return np.array([known.get(value, -1) for value in values])

    def log_density(self, values: Any, mean: np.ndarray, root: np.ndarray) -> np.ndarray:
        """Log densities or probabilities of cells (n, K); 0 where they are missing."""
        if self.levels is not None:
            at = norm.logpdf(self.points[:, None], mean, root).sum(axis=2)
            codes = self.codes(values)
            found = (at - logsumexp(at, axis=0))[codes]
            return np.where((codes < 0)[:, None], 0.0, found)
        x = np.asarray(values, dtype=np.float64)[:, None]
        m, s = mean[:, 0], root[:, 0]
        found = _cell(x, m, s) if self.counts else norm.logpdf(x, m, s)
        return np.where(np.isnan(x), 0.0, found)


def _cell(x: np.ndarray, m: np.ndarray, s: np.ndarray) -> np.ndarray:
    """The log of the integral from x - 1/2, or minus infinity for 0, to x + 1/2."""
    low, high = np.where(x <= 0.0, -np.inf, (x - 0.5 - m) / s), (x + 0.5 - m) / s
    above = low > 0.0  # where the tail above is more exact
    near, far = np.where(above, -low, high), np.where(above, -high, low)
    upper, lower = log_ndtr(near), log_ndtr(far)
    return np.asarray(upper + np.log1p(-np.exp(np.minimum(lower - upper, -1e-300))))


def gaussian_scores(columns: list[Column], train: Any, held: Any, k: int, seed: int) -> np.ndarray:
    """Log likelihoods of the held-out rows under diagonal Gaussians."""
    x = np.hstack([column.numbers(train[column.name]) for column in columns])
    model = mixture(Gaussian("diag"), k, seed).fit(x)
    found = np.tile(np.log(model.weights_), (len(held), 1))
    roots, first = np.sqrt(model.covariances_), 0
    for column in columns:
        last = first + column.numbers(train[column.name][:1]).shape[1]
        cut = slice(first, last)
        found += column.log_density(held[column.name], model.means_[:, cut], roots[:, cut])
        first = last
    return np.asarray(logsumexp(found, axis=1))


def mixture(family: Any, k: int, seed: int) -> Mixture:
    return Mixture(family, k, learner="em", max_iter=300, random_state=seed, n_threads=1)


def split(table: Any, seed: int) -> tuple[Any, Any]:
    """Training rows and held-out rows."""
    rows = np.random.default_rng(seed).permutation(len(table))
    number = int(HELD_OUT * len(rows))
    train, held = table.iloc[rows[number:]], table.iloc[rows[:number]]
    return train.reset_index(drop=True), held.reset_index(drop=True)


def with_known_levels(columns: list[Column], held: Any) -> Any:
    """The rows all of whose levels are known."""
    for column in columns:
        if column.levels is not None:
            values = held[column.name]
            held = held[values.isin(column.levels) | values.isna()]
    return held.reset_index(drop=True)


def scores(table: Any, k: int, seed: int) -> tuple[float, float, int]:
    """Nats per held-out row of the chosen families and of Gaussians, and rows left out."""
    train, held = split(table, seed)
    own = mixture("auto", k, seed).fit(train)
    columns = [Column(name, choice) for choice in own.chosen_families_ for name in _names(choice)]
    known = with_known_levels(columns, held)
    other = gaussian_scores(columns, train, known, k, seed).mean()
    return float(own.score(known)), float(other), len(held) - len(known)


def _names(choice: Any) -> tuple[str, ...]:
    """The column of a choice, or the columns of a group."""
    return choice.column if isinstance(choice.column, tuple) else (choice.column,)


def main() -> None:
    warnings.simplefilter("ignore")
    print(heading("table", "K", "auto", "Gaussians", "gain", "least gain", "rows left out"))
    for name in sys.argv[1:] or LEFT_OUT:
        table = frame(name)
        for k in COMPONENTS:
            found = np.array([scores(table, k, seed) for seed in range(SEEDS)])
            own, other, _ = found.mean(axis=0)
            gains = found[:, 0] - found[:, 1]
            line = f"{own:.3f} | {other:.3f} | {gains.mean():+.3f} | {gains.min():+.3f}"
            print(f"| {name} | {k} | {line} | {found[:, 2].sum():.0f} |", flush=True)


if __name__ == "__main__":
    main()
