"""Regression by a mixture: the target of test rows is missing, and `impute` fills it.

    MIXFOLD_DATA=... python benchmarks/conditional.py

R^2 on a fifth of the rows, mean over three splits, of Gaussian mixtures with full covariances, next
to scikit-learn's HistGradientBoostingRegressor and LinearRegression. First EM with given numbers
of components; then the default learner on standardised columns, with K of 5 to 50 that is chosen
on the training rows: by BIC, by the likelihood of a fifth of them, or, together with `reg_covar`,
by the likelihood of the target given the other columns in this fifth.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from _tables import heading, split
from mixfold import Gaussian, Mixture
from mixfold.experiments.templates import read_table

TARGETS = {"ccpp": "PE", "airfoil": "scaled_sound_pressure"}
COMPONENTS, SEEDS = (1, 5, 10, 20), 3
OFFERED, REGULARIZATIONS = (5, 10, 20, 30, 50), (0.0, 0.01, 0.05)
CRITERIA = ("BIC", "rows", "target")


@dataclass(frozen=True)
class Trial:
    """A fit to a part of the training rows; what it says about K, larger is better."""

    k: int
    reg_covar: float
    bic: float
    rows: float
    target: float


def table(name: str) -> np.ndarray:
    """All columns, the target last."""
    frame = read_table(name, None).to_pandas().astype("float64")
    target = frame.pop(TARGETS[name])
    return np.column_stack([frame.to_numpy(), target])


def r2(true: np.ndarray, found: np.ndarray) -> float:
    return float(1.0 - np.sum((true - found) ** 2) / np.sum((true - true.mean()) ** 2))


def without_target(rows: np.ndarray) -> np.ndarray:
    asked = rows.copy()
    asked[:, -1] = np.nan
    return asked


def r2_of(model: Mixture, held: np.ndarray) -> float:
    return r2(held[:, -1], model.impute(without_target(held))[:, -1])


def of_mixture(train: np.ndarray, held: np.ndarray, k: int, seed: int) -> float:
    settings: Any = {"learner": "em", "random_state": seed, "n_threads": 1}
    return r2_of(Mixture(Gaussian("full"), k, **settings).fit(train), held)


def default_fit(train: np.ndarray, k: int, reg_covar: float, seed: int) -> Mixture:
    return Mixture(Gaussian(reg_covar=reg_covar), k, random_state=seed, n_threads=1).fit(train)


def trials(train: np.ndarray, seed: int) -> list[Trial]:
    """Fits of every K and `reg_covar`, evaluated by a fifth of the training rows."""
    own, other = split(train, seed + 100)
    found = []
    for k, reg_covar in product(OFFERED, REGULARIZATIONS):
        model = default_fit(own, k, reg_covar, seed)
        rows = float(model.score(other))
        target = rows - float(model.score(without_target(other)))
        found.append(Trial(k, reg_covar, -float(model.bic(own)), rows, target))
    return found


def of_chosen(train: np.ndarray, held: np.ndarray, seed: int) -> list[tuple[float, Trial]]:
    """R^2 of the mixtures that BIC, the rows and the target choose."""
    mean, deviation = train.mean(axis=0), train.std(axis=0)
    train, held = (train - mean) / deviation, (held - mean) / deviation
    found = trials(train, seed)
    plain = [trial for trial in found if trial.reg_covar == 0.0]
    best = [
        max(plain, key=lambda trial: trial.bic),
        max(plain, key=lambda trial: trial.rows),
        max(found, key=lambda trial: trial.target),
    ]
    fits = {trial: default_fit(train, trial.k, trial.reg_covar, seed) for trial in best}
    return [(r2_of(fits[trial], held), trial) for trial in best]


def of_regressor(model: Any, train: np.ndarray, held: np.ndarray) -> float:
    return r2(held[:, -1], model.fit(train[:, :-1], train[:, -1]).predict(held[:, :-1]))


def scores(name: str, seed: int) -> tuple[list[float], list[Trial]]:
    """R^2 of all mixtures, then of trees and of least squares, and what was chosen."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import LinearRegression

    train, held = split(table(name), seed)
    found = [of_mixture(train, held, k, seed) for k in COMPONENTS]
    chosen = of_chosen(train, held, seed)
    rivals = (HistGradientBoostingRegressor(random_state=seed), LinearRegression())
    found += [r2 for r2, _ in chosen]
    found += [of_regressor(rival, train, held) for rival in rivals]
    return found, [trial for _, trial in chosen]


def main() -> None:
    warnings.simplefilter("ignore")
    given, chosen = (f"K={k}" for k in COMPONENTS), (f"K by {what}" for what in CRITERIA)
    print(heading("table", *given, *chosen, "boosted trees", "least squares"))
    for name in TARGETS:
        found = [scores(name, seed) for seed in range(SEEDS)]
        means = np.mean([one for one, _ in found], axis=0)
        print(f"| {name} | {' | '.join(f'{mean:.4f}' for mean in means)} |", flush=True)
        for what, *best in zip(CRITERIA, *(trials for _, trials in found), strict=True):
            print(what, "chose", [(trial.k, trial.reg_covar) for trial in best], flush=True)


if __name__ == "__main__":
    main()
