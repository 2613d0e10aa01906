"""river's own checks of its estimators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from river.checks import common

from mixfold.river import MixtureAnomaly, MixtureClusterer, MixtureDensity
from river import anomaly, checks, datasets, preprocessing

N_COLUMNS, FAR = 28, 6.0
Row = tuple[dict[str, Any], int]


class Payments:
    """Rows in the columns of river's CreditCard, which would have to be downloaded."""

    def __init__(self, n: int = 2000) -> None:
        rng = np.random.default_rng(0)
        strange = rng.random(n) < 0.02
        x = rng.normal(size=(n, N_COLUMNS)) + FAR * rng.integers(2, size=(n, 1))
        x[strange] += rng.normal(scale=FAR, size=(int(strange.sum()), N_COLUMNS))
        names = [f"V{j}" for j in range(1, N_COLUMNS + 1)]
        amounts = rng.exponential(50.0, n).round(2).tolist()
        self.rows: list[Row] = [
            ({"Time": float(i), **dict(zip(names, row, strict=True)), "Amount": amount}, int(y))
            for i, (row, amount, y) in enumerate(zip(x.tolist(), amounts, strange, strict=True))
        ]
        self.kinds = [("shop", "web", "phone")[kind] for kind in rng.integers(3, size=n)]

    def take(self, n: int) -> list[Row]:
        """A fifth of the rows that a check asks for, which saves time."""
        return self.rows[: n // 5]

    def mixed(self, n: int) -> list[Row]:
        """Few columns: numbers, a category, yes or no, and a cell that is often missing."""
        return [
            (
                {
                    "a": row["V1"],
                    "b": row["V2"] if i % 3 else None,
                    "kind": self.kinds[i],
                    "large": row["Amount"] > 50.0,
                    "count": int(row["Amount"]),
                },
                y,
            )
            for i, (row, y) in enumerate(self.rows[:n])
        ]


PAYMENTS = Payments()
MODELS = [
    MixtureAnomaly(n_components=2),
    MixtureClusterer(n_components=2, seed=1),
    preprocessing.StandardScaler() | MixtureAnomaly(n_components=2, seed=1),
    anomaly.QuantileFilter(MixtureAnomaly(n_components=2, seed=1), q=0.95),
]


def named(models: list[Any]) -> list[Any]:
    return [pytest.param(model, id=str(i)) for i, model in enumerate(models)]


@pytest.mark.parametrize("model", named(MODELS))
def test_check_estimator_of_river(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "CreditCard", lambda: PAYMENTS)
    checks.check_estimator(model)


ON_ROWS = [
    common.check_learn_one,
    common.check_pickling,
    common.check_shuffle_features_no_impact,
    common.check_emerging_features,
    common.check_disappearing_features,
    common.check_radically_disappearing_features,
    common.check_predict_one_pure,
    common.check_predict_one_before_any_learn,
    common.check_no_state_aliasing_with_input,
    common.check_clone_is_independent,
    common.check_seeding_is_idempotent,
    common.check_bounded_memory_growth,
]
OF_NUMBERS = MixtureClusterer(n_components=2, grace_period=30, seed=1)
OF_MIXED = [
    MixtureClusterer(n_components=2, grace_period=30, seed=1),
    MixtureClusterer("auto", n_components=2, grace_period=30, seed=1),
    MixtureAnomaly("auto", n_components=2, seed=1),
]


@pytest.mark.parametrize("check", ON_ROWS)
def test_checks_on_rows_of_numbers_hold_for_clusters(check: Callable[..., None]) -> None:
    """river has these checks for other kinds of estimators only."""
    check(OF_NUMBERS.clone(), PAYMENTS.take(200))


@pytest.mark.parametrize("check", ON_ROWS)
@pytest.mark.parametrize("model", named(OF_MIXED))
def test_checks_on_mixed_rows(check: Callable[..., None], model: Any) -> None:
    check(model.clone(), PAYMENTS.mixed(60))


def checks_of_values() -> Iterator[Callable[[Any], None]]:
    """The checks that need no rows, without the tags, which only estimators have."""
    density: Any = MixtureDensity(seed=1)
    for check in checks.yield_checks(density):
        if check is common.check_bounded_memory_growth:
            return
        if check is not common.check_tags:
            yield check


@pytest.mark.parametrize("check", list(checks_of_values()))
def test_checks_of_river_hold_for_the_density(check: Callable[[Any], None]) -> None:
    check(MixtureDensity(seed=1))
