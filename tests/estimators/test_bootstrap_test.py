"""Likelihood-ratio tests of the number of components, against mclust and scikit-learn."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.mixture import GaussianMixture as Original

from mixfold import Auto, Gaussian, Mixture, Product, bootstrap_test, datasets
from mixfold.core.errors import InvalidInputError
from mixfold.estimators.bootstrap_test import BootstrapTest, _Rows
from mixfold.families.poisson import Poisson

FIXTURE = Path(__file__).parents[1] / "fixtures" / "mclust_bootstrap.csv"


def two_counts(n: int = 60) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.asarray(rng.poisson(np.repeat([3.0, 12.0], n))[:, None])


def mclust() -> list[dict[str, str]]:
    with FIXTURE.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    "one", mclust(), ids=lambda one: f"{one['data']}-{one['model']}-{one['components']}"
)
def test_statistics_are_those_of_mclust(one: dict[str, str]) -> None:
    faithful = one["data"] == "faithful"
    x = np.asarray(datasets.load_faithful()) if faithful else load_iris().data
    rows = _Rows(Mixture(Gaussian(one["model"]), random_state=0), x, 0)
    statistic = rows.ratio(rows.memory, int(one["components"]))[1]
    theirs = float(one["statistic"])
    assert statistic > theirs - 0.05
    if one["components"] == "1" or (float(one["p_value"]) < 0.05 and one["model"] != "VVV"):
        assert statistic == pytest.approx(theirs, abs=0.05)


def test_a_number_that_mclust_does_not_reject_is_not_rejected() -> None:
    x = np.asarray(datasets.load_faithful())
    (theirs,) = (
        float(one["p_value"])
        for one in mclust()
        if (one["data"], one["model"], one["components"]) == ("faithful", "EEE", "3")
    )
    assert theirs > 0.05
    mixture = Mixture(Gaussian("EEE"), learner=Auto(starts=1, prior_strength=0.0), random_state=0)
    assert not bootstrap_test(mixture, x, 3, n_replicates=19).rejected


def test_p_values_count_replicates() -> None:
    found = BootstrapTest(0.05)
    found.add(1, 3.0, np.array([1.0, 2.0, 4.0, 3.0]))
    assert found.p_values == [3 / 5]
    assert (found.rejected, found.n_components) == (False, 1)
    found.add(2, 9.0, np.zeros(19))
    assert found.p_values[-1] == pytest.approx(0.05)
    assert (found.rejected, found.n_components) == (True, 3)
    table = found.table()
    assert list(table["against"]) == [2, 3]
    assert list(table["p_value"]) == found.p_values


def test_replicates_are_statistics_of_drawn_rows() -> None:
    """The statistics of drawn rows are those that scikit-learn finds from many starts."""
    x = np.random.default_rng(1).normal(size=(60, 1))
    rows = _Rows(Mixture(Gaussian("VVV", floor=1e-3), random_state=0), x, 0)
    null, _ = rows.ratio(rows.memory, 1)
    assert null.start is not None
    drawn = list(rows.replicates(null, 1, 2))
    for replicate, statistic in enumerate(drawn):
        rng = np.random.default_rng([0, 1, replicate])
        again = null.model.sample(null.start.params, 60, rng)[0]
        many = [
            Original(k, n_init=8 if k > 1 else 1, tol=1e-8, max_iter=5000, random_state=0)
            for k in (1, 2)
        ]
        one, two = (each.fit(again).score(again) for each in many)
        assert statistic > 2 * 60 * (two - one) - 0.05


def test_seeds_and_progress() -> None:
    x, calls = two_counts(30), list[tuple[int, int]]()
    learner = Auto(starts=2, prior_strength=0.0)
    mixture = Mixture("poisson", learner=learner, random_state=3)
    one = bootstrap_test(
        mixture, x, 2, n_replicates=4, progress=lambda k, done: calls.append((k, done))
    )
    assert calls == [(2, 1), (2, 2), (2, 3), (2, 4)]
    again = bootstrap_test(mixture, x, 2, n_replicates=4)
    other = bootstrap_test(mixture, x, 2, n_replicates=4, random_state=4)
    longer = bootstrap_test(mixture, x, 2, n_replicates=6)
    assert one.replicates[0].tolist() == again.replicates[0].tolist()
    assert one.replicates[0].tolist() == longer.replicates[0][:4].tolist()
    assert one.replicates[0].tolist() != other.replicates[0].tolist()
    assert not hasattr(mixture, "model_")


def test_the_sequence_ends_at_the_first_that_is_not_rejected() -> None:
    learner = Auto(starts=2, prior_strength=0.0)
    mixture = Mixture("poisson", learner=learner, random_state=0)
    found = bootstrap_test(mixture, two_counts(), n_replicates=19)
    assert (found.components, found.n_components) == ([1, 2], 2)
    assert found.p_values[0] == 0.05
    stopped = bootstrap_test(mixture, two_counts(), most=1, n_replicates=2, level=0.4)
    assert (stopped.components, stopped.n_components) == ([1], 2)


def test_missing_cells_noise_and_products() -> None:
    rng = np.random.default_rng(2)
    x = np.column_stack([rng.normal(size=80), rng.poisson(5.0, size=80)])
    x[40:, 0] += 9.0
    x[::7, 1] = np.nan
    family = Product({"a": Gaussian(), "b": Poisson()})
    learner = Auto(starts=2, prior_strength=0.0)
    mixture = Mixture(family, columns=["a", "b"], learner=learner, random_state=0)
    found = bootstrap_test(mixture, pd.DataFrame(x, columns=["a", "b"]), 1, n_replicates=4)
    assert found.p_values == [0.2]
    far = np.vstack([rng.normal(size=(60, 1)), rng.uniform(-40.0, 40.0, size=(12, 1))])
    settings: dict[str, Any] = {"learner": learner, "random_state": 0}
    with_noise = Mixture(Gaussian(), noise=True, **settings)
    assert bootstrap_test(with_noise, far, 1, n_replicates=4).p_values[0] > 0.2
    found = bootstrap_test(Mixture(Gaussian(), **settings), far, 1, n_replicates=4)
    assert found.p_values == [0.2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_components": 0}, "n_components is 0"),
        ({"n_components": 200}, "distinct rows"),
        ({"most": 0}, "most is 0"),
        ({"n_replicates": 0}, "n_replicates is 0"),
        ({"level": 0.0}, "level is 0"),
        ({"level": np.nan}, "level is nan"),
        ({"mixture": "gaussian"}, "Mixture is needed"),
        ({"X": np.array([[1.0], [2.0], [np.inf]])}, "infinity"),
        ({"X": np.array([[1.0], [2.5], [3.0]])}, "whole numbers"),
    ],
)
def test_bad_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    given = {"mixture": Mixture("poisson"), "X": two_counts(10), **changes}
    with pytest.raises(InvalidInputError, match=message):
        bootstrap_test(**given)


def test_rows_that_do_not_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    from mixfold.estimators import _candidate_starts

    monkeypatch.setattr(_candidate_starts, "MOST_BYTES", 800)
    with pytest.raises(InvalidInputError, match="do not fit into memory"):
        bootstrap_test(Mixture("poisson"), two_counts())
