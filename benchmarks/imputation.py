"""Hidden cells of real tables, filled by mixtures, by means and modes, and by regressions.

    MIXFOLD_DATA=... python benchmarks/imputation.py [TABLE ...]

A fifth of the observed cells of ten tables is hidden at random. `impute` of a mixture with
`family="auto"`, whose K of 1, 2, 3, 5 and 8 has the least BIC on the cells that are left, against
columns' means and modes, and scikit-learn's IterativeImputer on standardised numbers and zeros and
ones for all levels of categories but the most frequent, whose share is what is left of one; the
largest share is taken. (With all levels, each would be predicted exactly from the others of its
column, which are missing together, and would stay at its mean.) Errors of numbers are root mean
squares in units of the column's standard deviation, averaged over columns; categories have the
share of correct cells. Coverage is that of numbers by 90% intervals from 50 draws.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from _mixed_tables import LEFT_OUT, categories, frame, numbers
from _tables import heading
from mixfold import Mixture

HIDDEN, DRAWS, SEEDS = 0.2, 50, 2
COMPONENTS = (1, 2, 3, 5, 8)


class Error(NamedTuple):
    """The error of numbers and the share of categories that are correct."""

    rmse: float
    accuracy: float

    def __str__(self) -> str:
        return f"{self.rmse:.3f} | {self.accuracy:.3f}"


def hide(table: Any, seed: int) -> tuple[Any, np.ndarray]:
    """The table without some cells, and which they are."""
    rng = np.random.default_rng(seed)
    hidden = (rng.random(table.shape) < HIDDEN) & table.notna().to_numpy()
    left = table.mask(hidden)
    for column in categories(left):
        left[column] = left[column].astype(object).where(left[column].notna(), None)
    return left, hidden


def chosen(left: Any, seed: int) -> Mixture:
    """The mixture of the least BIC."""
    settings: Any = {"learner": "em", "random_state": seed, "n_threads": 1, "max_iter": 300}
    fits = [Mixture("auto", k, **settings).fit(left) for k in COMPONENTS]
    return min(fits, key=lambda fit: float(fit.bic(left)))


def by_means(left: Any) -> Any:
    """Columns' means and modes."""
    found = left.copy()
    for column in left:
        value = left[column].mean() if column in numbers(left) else _mode(left[column])
        found[column] = left[column].where(left[column].notna(), value)
    return found


def by_regressions(left: Any) -> Any:
    """IterativeImputer on standardised numbers and on zeros and ones."""
    import pandas as pd
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    real = left[numbers(left)]
    mean, scale = real.mean(), real.std()
    parts = [(real - mean) / scale]
    for column in categories(left):
        ones = pd.get_dummies(left[column]).astype("float64").drop(columns=_mode(left[column]))
        parts.append(ones.mask(left[column].isna(), axis=0))
    imputer = IterativeImputer(random_state=0, max_iter=20)
    x = imputer.fit_transform(np.hstack(parts))
    found, first = left.copy(), real.shape[1]
    found[real.columns] = x[:, :first] * scale.to_numpy() + mean.to_numpy()
    for column, part in zip(categories(left), parts[1:], strict=True):
        share = x[:, first : first + part.shape[1]]
        levels = np.array([*part.columns, _mode(left[column])], dtype=object)
        found[column] = levels[np.column_stack([share, 1.0 - share.sum(axis=1)]).argmax(axis=1)]
        first += part.shape[1]
    return found


def _mode(column: Any) -> Any:
    return column.mode()[0]


def error(table: Any, filled: Any, hidden: np.ndarray) -> Error:
    """How far the filled cells are from the hidden ones."""
    squares, same = [], []
    for j, column in enumerate(table):
        there = hidden[:, j]
        true, found = table[column][there].to_numpy(), filled[column][there].to_numpy()
        if column in numbers(table):
            squares.append(np.sqrt(np.mean((true - found) ** 2)) / table[column].std())
        else:
            same.append(np.mean(true == found))
    return Error(float(np.mean(squares)) if squares else np.nan, float(np.mean(same)))


def coverage(model: Mixture, table: Any, left: Any, hidden: np.ndarray) -> float:
    """The share of hidden numbers within the 5% and 95% quantiles of draws."""
    real = numbers(table)
    if not real:
        return np.nan
    there = hidden[:, [list(table).index(column) for column in real]]
    draws = [model.impute(left, "draw", seed)[real].to_numpy()[there] for seed in range(DRAWS)]
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    true = table[real].to_numpy()[there]
    return float(np.mean((low <= true) & (true <= high)))


def measured(name: str) -> str:
    """The line of a table: means over the seeds."""
    table = frame(name)
    ways: dict[str, Callable[[Any], Any]] = {"means": by_means, "regressions": by_regressions}
    own, covered, sizes, seconds = [], [], [], 0.0
    rivals: dict[str, list[Error]] = {way: [] for way in ways}
    for seed in range(SEEDS):
        left, hidden = hide(table, seed)
        began = time.perf_counter()
        model = chosen(left, seed)
        own.append(error(table, model.impute(left), hidden))
        seconds += time.perf_counter() - began
        sizes.append(str(model.n_components))
        covered.append(coverage(model, table, left, hidden))
        for way, fill in ways.items():
            rivals[way].append(error(table, fill(left), hidden))
    shown = [Error(*np.mean(each, axis=0)) for each in (own, *rivals.values())]
    cells = " | ".join(map(str, shown))
    end = f"{np.mean(covered):.3f} | {seconds / SEEDS:.1f}"
    return f"| {name} | {', '.join(sizes)} | {cells} | {end} |"


def main() -> None:
    warnings.simplefilter("ignore")
    ways, both = ("mixture", "means", "regressions"), ("error", "correct")
    pairs = [f"{way}, {what}" for way in ways for what in both]
    print(heading("table", "K", *pairs, "coverage (0.9)", "seconds"))
    for name in sys.argv[1:] or LEFT_OUT:
        print(measured(name), flush=True)


if __name__ == "__main__":
    main()
