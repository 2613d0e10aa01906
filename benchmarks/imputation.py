"""Hidden cells of real tables, filled by mixtures, by means and modes, and by regressions.

    MIXFOLD_DATA=... python benchmarks/imputation.py [TABLE ...]

A fifth of the observed cells of ten tables is hidden at random. `impute` of a mixture with
`family="auto"` and a weak prior against
columns' means and modes, and scikit-learn's IterativeImputer on standardised numbers and zeros and
ones for all levels of categories but the most frequent, whose share is what is left of one; the
largest share is taken. (With all levels, each would be predicted exactly from the others of its
column, which are missing together, and would stay at its mean.) Errors of numbers are root mean
squares in units of the column's standard deviation, averaged over columns; categories have the
share of correct cells. Coverage is that of numbers by 90% intervals from 50 draws.

K is chosen as a user can choose it, from the observed cells alone: a tenth of them is hidden too,
three times in tables of up to 2,000 rows, and the K is taken whose mixture of the others gives them
the highest density. K is one of 1, 2, 3, 5, 8, 12, 20 and 30; the search ends after two in a row
that are worse. Small tables are fitted by the default learner, larger ones by EM with the same
prior and one initialisation, which takes a fifth of the time.
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
from mixfold.learners.em import EM

HIDDEN, DRAWS, SEEDS = 0.2, 50, 2
COMPONENTS = (1, 2, 3, 5, 8, 12, 20, 30)
HIDDEN_TO_CHOOSE, PASSES_TO_CHOOSE, MOST_WORSE = 0.1, 60, 2
SMALL, TIMES = 2000, 3  # rows of small tables, and how often cells of theirs are hidden to choose K


class Error(NamedTuple):
    """The error of numbers and the share of categories that are correct."""

    rmse: float
    accuracy: float

    def __str__(self) -> str:
        return f"{self.rmse:.3f} | {self.accuracy:.3f}"


def hide(table: Any, seed: int, share: float = HIDDEN) -> tuple[Any, np.ndarray]:
    """The table without some cells, and which they are."""
    rng = np.random.default_rng(seed)
    hidden = (rng.random(table.shape) < share) & table.notna().to_numpy()
    left = table.mask(hidden)
    for column in categories(left):
        left[column] = left[column].astype(object).where(left[column].notna(), None)
    return left, hidden


def mixture(left: Any, k: int, seed: int, passes: int) -> Mixture:
    """The mixture of a table; a level that is hidden everywhere is one of its own."""
    settings: Any = {"max_iter": passes, "random_state": seed, "n_threads": 1}
    learner: Any = EM(accelerate=True, prior_strength=1.0) if len(left) > SMALL else "auto"
    return Mixture("auto", k, learner=learner, unseen="own-level", **settings).fit(left)


def chosen(left: Any, seed: int) -> Mixture:
    """The mixture whose number of components describes observed cells best that it does not see."""
    times = 1 if len(left) > SMALL else TIMES
    some = [hide(left, seed + SEEDS * (i + 1), HIDDEN_TO_CHOOSE)[0] for i in range(times)]
    best, highest, worse = 1, -np.inf, 0
    for k in COMPONENTS:
        score = float(np.mean([_described(left, fewer, k, seed) for fewer in some]))
        if score > highest:
            best, highest, worse = k, score, 0
        else:
            worse += 1
        if worse == MOST_WORSE:
            break
    return mixture(left, best, seed, 300)


def _described(left: Any, fewer: Any, k: int, seed: int) -> float:
    """The mean log density of the cells that `fewer` lacks, given the others of their row."""
    model = mixture(fewer, k, seed, PASSES_TO_CHOOSE)
    return float(np.mean(model.score_samples(left) - model.score_samples(fewer)))


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
        began = time.process_time()
        model = chosen(left, seed)
        own.append(error(table, model.impute(left), hidden))
        seconds += time.process_time() - began
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
    print(heading("table", "K", *pairs, "coverage (0.9)", "processor seconds"))
    for name in sys.argv[1:] or LEFT_OUT:
        print(measured(name), flush=True)


if __name__ == "__main__":
    main()
