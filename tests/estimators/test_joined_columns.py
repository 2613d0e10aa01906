"""Columns that family="auto" gives a joint distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from mixfold import Gaussian, Mixture, Product
from mixfold.families.transformed_gaussian import TransformedGaussian


def bodies(n: int = 400, seed: int = 0, hidden: float = 0.0) -> pd.DataFrame:
    """Two components in which weight depends on height, and age and a score on nothing else."""
    rng = np.random.default_rng(seed)
    z = rng.integers(2, size=n)
    height = rng.normal(160.0 + 12.0 * z, 6.0)
    frame = pd.DataFrame(
        {
            "height": height,
            "weight": 60.0 + 0.9 * (height - 160.0) + rng.normal(scale=2.0, size=n),
            "score": rng.normal(size=n),
            "group": np.array(["a", "b", "c"])[rng.integers(3, size=n)],
        }
    )
    return frame.mask(rng.random(frame.shape) < hidden)


def groups(frame: Any, **settings: Any) -> dict[Any, Any]:
    model = Mixture("auto", 2, learner="em", random_state=0, **settings).fit(frame)
    chosen = model.chosen_families_
    return {one.column: one for one in chosen if isinstance(one.column, tuple)}


@pytest.mark.parametrize("hidden", [0.0, 0.3])
def test_columns_that_depend_on_one_another_are_joined(hidden: float) -> None:
    found = groups(bodies(hidden=hidden))
    assert list(found) == [("height", "weight")]
    assert "depend on one another" in found["height", "weight"].reason


def test_columns_that_are_independent_within_components_are_not_joined() -> None:
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=600)
    x = rng.normal(6.0 * z[:, None] * [1.0, -1.0, 1.0], size=(600, 3))
    assert not groups(x)


def test_a_product_of_columns_is_joined_on_the_logarithmic_scale() -> None:
    rng = np.random.default_rng(0)
    width, length = np.exp(rng.normal(size=(2, 500)))
    area = width * length * np.exp(rng.normal(scale=0.05, size=500))
    found = groups(pd.DataFrame({"width": width, "length": length, "area": area}))
    (choice,) = found.values()
    assert isinstance(choice.family, TransformedGaussian)
    assert choice.family.logs == (0, 1, 2)
    assert choice.reason.endswith("width, length, area on the logarithmic scale")


def test_a_sum_of_positive_columns_is_joined_on_the_real_scale() -> None:
    rng = np.random.default_rng(0)
    fare, tip = rng.gamma(3.0, 4.0, size=500), rng.gamma(2.0, 1.0, size=500)
    total = fare + tip + rng.normal(scale=0.02, size=500)
    found = groups(pd.DataFrame({"fare": fare, "tip": tip, "total": total}))
    (choice,) = found.values()
    assert isinstance(choice.family, Gaussian)
    assert choice.column == ("fare", "tip", "total")


def test_counts_and_few_numbers_are_not_joined() -> None:
    rng = np.random.default_rng(0)
    visits = rng.poisson(4.0, size=500)
    frame = pd.DataFrame({"visits": visits, "nights": visits + rng.poisson(1.0, size=500)})
    assert not groups(frame)


def test_an_override_takes_its_column_out_of_the_group() -> None:
    frame = bodies()
    frame["girth"] = frame["weight"] + np.random.default_rng(1).normal(size=len(frame))
    assert list(groups(frame)) == [("height", "weight", "girth")]
    assert list(groups(frame, overrides={"height": Gaussian()})) == [("weight", "girth")]
    assert not groups(frame, overrides={"height": Gaussian(), "weight": Gaussian()})


def test_columns_are_not_joined_on_a_device() -> None:
    pytest.importorskip("torch")
    assert groups(bodies(), engine="cpu")
    assert not groups(bodies(), engine="torch:cpu")


def test_a_missing_cell_is_filled_from_the_group() -> None:
    model = Mixture("auto", 2, random_state=0).fit(bodies())
    row = pd.DataFrame({"height": [175.0], "weight": [None], "score": [0.0], "group": ["a"]})
    filled = model.impute(row.astype({"weight": "float64"}))
    assert filled["weight"][0] == pytest.approx(73.5, abs=0.8)


def test_the_choice_does_not_depend_on_the_order_of_columns() -> None:
    frame = bodies()
    (one,), (other,) = groups(frame), groups(frame[frame.columns[::-1]])
    assert set(one) == set(other)


@pytest.mark.parametrize("n", [2, 5, 8])
def test_few_rows_are_enough(n: int) -> None:
    model = Mixture("auto", 1, learner="em").fit(bodies(n))
    assert np.isfinite(model.score(bodies(n)))


def test_mixtures_of_one_joined_column_are_those_of_the_whole() -> None:
    frame = bodies()
    model = Mixture("auto", 2, learner="em", random_state=0).fit(frame)
    for columns in (["weight"], ["weight", "group"]):
        others = frame.drop(columns=columns).columns
        small, holes = model.marginal(columns), frame.copy()
        holes[others] = None
        expected = model.score_samples(holes)
        np.testing.assert_allclose(small.score_samples(frame[columns]), expected)
        assert small.partial_fit(frame[columns]).score(frame[columns]) > expected.mean()
    given = model.conditional({"height": 170.0, "group": "a"})
    assert np.isfinite(given.score(frame[["weight", "score"]]))


def test_a_column_may_have_a_tied_variance() -> None:
    rows = bodies()
    tied = Product({"height": Gaussian("tied"), "group": "categorical"})
    model = Mixture(tied, 2, learner="em", random_state=0).fit(rows[["height", "group"]])
    alone = Mixture(Gaussian("tied"), 2, learner="em", random_state=0).fit(rows[["height"]])
    np.testing.assert_allclose(model.means_[:, :1], alone.means_, atol=1.0)
    variances = model.parameters_["height"]["covariances"]
    np.testing.assert_allclose(np.unique(variances), alone.covariances_.ravel(), rtol=0.1)


@pytest.mark.parametrize(("n", "d"), [(20, 10), (50, 20), (60, 40)])
def test_independent_columns_of_few_rows_are_not_joined(n: int, d: int) -> None:
    x = np.random.default_rng(0).normal(size=(n + 500, d))
    model = Mixture("auto", 2, random_state=0).fit(x[:n])
    assert not [one for one in model.chosen_families_ if isinstance(one.column, tuple)]
    assert model.score(x[n:]) > -1.8 * d  # the entropy is 1.42 in each column
