"""Regression by a mixture: the target of test rows is missing, and `impute` fills it.

    MIXFOLD_DATA=... python benchmarks/conditional.py

R^2 on a fifth of the rows, mean over three splits, of Gaussian mixtures with full covariances, next
to scikit-learn's HistGradientBoostingRegressor and LinearRegression.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from _tables import heading, split
from mixfold import Gaussian, Mixture
from mixfold.experiments.templates import read_table

TARGETS = {"ccpp": "PE", "airfoil": "scaled_sound_pressure"}
COMPONENTS, SEEDS = (1, 5, 10, 20), 3


def table(name: str) -> np.ndarray:
    """All columns, the target last."""
    frame = read_table(name, None).to_pandas().astype("float64")
    target = frame.pop(TARGETS[name])
    return np.column_stack([frame.to_numpy(), target])


def r2(true: np.ndarray, found: np.ndarray) -> float:
    return float(1.0 - np.sum((true - found) ** 2) / np.sum((true - true.mean()) ** 2))


def of_mixture(train: np.ndarray, held: np.ndarray, k: int, seed: int) -> float:
    settings: Any = {"learner": "em", "random_state": seed, "n_threads": 1}
    model = Mixture(Gaussian("full"), k, **settings).fit(train)
    asked = held.copy()
    asked[:, -1] = np.nan
    return r2(held[:, -1], model.impute(asked)[:, -1])


def of_regressor(model: Any, train: np.ndarray, held: np.ndarray) -> float:
    return r2(held[:, -1], model.fit(train[:, :-1], train[:, -1]).predict(held[:, :-1]))


def scores(name: str, seed: int) -> list[float]:
    """R^2 of all mixtures, then of trees and of least squares."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import LinearRegression

    train, held = split(table(name), seed)
    found = [of_mixture(train, held, k, seed) for k in COMPONENTS]
    rivals = (HistGradientBoostingRegressor(random_state=seed), LinearRegression())
    return found + [of_regressor(rival, train, held) for rival in rivals]


def main() -> None:
    warnings.simplefilter("ignore")
    print(heading("table", *(f"K={k}" for k in COMPONENTS), "boosted trees", "least squares"))
    for name in TARGETS:
        means = np.mean([scores(name, seed) for seed in range(SEEDS)], axis=0)
        print(f"| {name} | {' | '.join(f'{mean:.4f}' for mean in means)} |", flush=True)


if __name__ == "__main__":
    main()
