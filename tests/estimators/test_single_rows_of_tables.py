"""Single rows of tables get the same bits as tables of one row, with and without missing cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from mixfold import Mixture
from mixfold.core.errors import InvalidInputError
from mixfold.estimators._row_bounds import FEW, RowBounds
from mixfold.families.bernoulli import Bernoulli
from mixfold.families.beta import Beta
from mixfold.families.categorical import Categorical
from mixfold.families.dirichlet import Dirichlet
from mixfold.families.gamma import Gamma
from mixfold.families.gaussian import Gaussian
from mixfold.families.poisson import Poisson
from mixfold.families.product import Product

RNG = np.random.default_rng(0)


def mixed(n: int) -> pd.DataFrame:
    """Real numbers, positive ones, counts, categories of strings and of two values."""
    group = RNG.integers(2, size=n)
    return pd.DataFrame(
        {
            "size": RNG.normal(5.0 * group),
            "price": RNG.gamma(2.0, 1.0 + 4.0 * group),
            "visits": RNG.poisson(2.0 + 9.0 * group),
            "colour": np.where(RNG.random(n) < 0.2 + 0.6 * group, "red", "blue"),
            "member": (RNG.random(n) < 0.1 + 0.8 * group).astype(int),
        }
    )


FRAME = mixed(400)
MODEL = Mixture("auto", 2, random_state=0).fit(FRAME)


def as_table(cells: dict[str, Any]) -> pd.DataFrame:
    """A table of one row, with the types of all rows where a cell is there."""
    columns = {
        name: pd.Series([cells.get(name)], dtype=FRAME[name].dtype if name in cells else object)
        for name in FRAME
    }
    return pd.DataFrame(columns)


@pytest.mark.parametrize("missing", [(), ("price",), ("size", "colour"), ("visits", "member")])
def test_a_dict_has_the_bits_of_a_table(missing: tuple[str, ...]) -> None:
    for i in range(12):
        cells = {name: FRAME[name].tolist()[i] for name in FRAME if name not in missing}
        table = as_table(cells)
        assert MODEL.score_one(cells) == MODEL.score_samples(table)[0]
        assert MODEL.predict_proba_one(cells).tolist() == MODEL.predict_proba(table)[0].tolist()
        reverse = dict(reversed(cells.items())) | dict.fromkeys(missing)
        assert MODEL.score_one(reverse) == MODEL.score_one(cells)


def test_an_array_has_the_bits_of_an_array() -> None:
    x = np.column_stack([RNG.normal(size=300), RNG.gamma(2.0, size=300), RNG.poisson(3.0, 300)])
    model = Mixture(Product({0: Gaussian(), 1: Gamma(), 2: Poisson()}), 2, random_state=0).fit(x)
    for row in x[:10]:
        for hole in (None, 0, 1, 2):
            given = row.copy()
            if hole is not None:
                given[hole] = np.nan
            assert model.score_one(given) == model.score_samples(given[None])[0]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"visits": 2.5}, "visits.*2.5"),
        ({"visits": -1}, "visits.*-1"),
        ({"price": 0.0}, "price.*0"),
        ({"colour": "green"}, "colour"),
        ({"size": float("inf")}, "infinity"),
        ({"size": "much"}, "size.*much"),
    ],
)
def test_cells_that_are_refused(cells: dict[str, Any], message: str) -> None:
    row = {name: FRAME[name].tolist()[0] for name in FRAME}
    with pytest.raises((InvalidInputError, ValueError), match=message):
        MODEL.score_one(row | cells)


def test_columns_that_the_model_does_not_have_do_not_change_a_score() -> None:
    row = {name: FRAME[name].tolist()[0] for name in FRAME}
    assert MODEL.score_one(row | {"height": 1.0}) == MODEL.score_one(row)


VALUES = [-1e200, -1.0, -1e-300, 0.0, 1e-300, 0.5, 1.0, 1.5, 2.0, 3.0, 7.0, 1e200, np.inf, np.nan]


@pytest.mark.parametrize(
    "family",
    [
        Gaussian(),
        Gamma(),
        Poisson(),
        Bernoulli(),
        Categorical(3),
        Beta(),
        Dirichlet(),
        Product({0: Gamma(), 1: Categorical(3)}),
        Product({0: Beta(), 1: Poisson()}),
        Product({(0, 1): Dirichlet()}),
    ],
    ids=repr,
)
def test_bounds_are_those_of_the_family(family: Any) -> None:
    bounds = RowBounds(family, 2)
    for a in VALUES:
        for b in [*VALUES, 1.0 - a]:
            row = np.array([a, b])
            outside = None
            if (np.abs(row) < 1e60).all():
                outside = family.out_of_support(row[None])
            allowed = (np.abs(row) < 1e60).all() and (outside is None or not outside.any())
            assert bounds.contain(row) == allowed, row


def test_bounds_of_many_columns() -> None:
    bounds, row = RowBounds(Poisson(), FEW + 1), np.full(FEW + 1, 2.0)
    assert bounds.contain(row)
    for wrong in (-1.0, 0.5, np.nan, np.inf):
        row[3] = wrong
        assert not bounds.contain(row)


@pytest.mark.parametrize("names", [[0, 1, 2], [7, 2, 0], [*map(np.int64, (3, 1, 0))]], ids=repr)
def test_keys_of_a_dict_may_be_whole_numbers(names: list[Any]) -> None:
    x = RNG.normal(size=(200, 3)) + 6.0 * RNG.integers(2, size=(200, 1))
    frame = pd.DataFrame(x, columns=names)
    model = Mixture("auto", 2, random_state=0).fit(frame)
    row = dict(reversed([*zip(names, x[0], strict=True)]))
    expected = model.score_samples(frame[:1])[0]
    assert model.score_one(row) == model.score_samples(row)[0] == expected
    assert model.predict_one(row) == model.predict(frame[:1])[0]
    np.testing.assert_array_equal(model.predict_proba_one(row), model.predict_proba(frame[:1])[0])
    assert model.score_one(row | {11: 5.0}) == expected
    by_text = {str(name): cell for name, cell in row.items()}
    learned = [Mixture("auto", 2, random_state=0).partial_fit(frame) for _ in range(2)]
    for one, given in zip(learned, (row, by_text), strict=True):
        assert one.learn_one(given).n_rows_ == 201
    assert learned[0].score(frame) == learned[1].score(frame)


def test_whole_numbers_and_their_text_are_different_keys_of_a_dict() -> None:
    frame = pd.DataFrame({"0": RNG.normal(size=50), "1": RNG.normal(size=50)})
    model = Mixture("auto", 1, random_state=0).fit(frame)
    row = {"0": 0.5, "1": 1.0}
    assert model.score_one({1: 7.0, **row}) == model.score_one({**row, 1: 7.0})
    assert model.score_one({1: 7.0, **row}) == model.score_one(row)


def test_dicts_for_models_without_names_of_columns() -> None:
    frame = pd.DataFrame(RNG.normal(size=(50, 2)), columns=[1, 0])
    model = Mixture(n_components=1, random_state=0).fit(frame)
    with pytest.raises(InvalidInputError, match="names are not text: give the row as an array"):
        model.score_one({0: 1.0, 1: 2.0})


def test_a_series_of_pandas_is_read_by_its_labels() -> None:
    """As a row of a frame is, whatever the order of its columns; without names, by place."""
    frame = pd.DataFrame(RNG.normal([0.0, 50.0], 1.0, (200, 2)), columns=["a", "b"])
    model = Mixture("gaussian", 1, learner="online-em").fit(frame)
    row = frame.iloc[7]
    expected = model.score_samples(frame[7:8])[0]
    assert model.score_one(row) == model.score_one(row[::-1]) == expected
    assert model.score_one(row.set_axis(["b", "a"])) < expected - 100.0
    assert model.score_one(pd.Series(row.to_numpy())) == expected
    assert model.score_one(list(row)) == expected
    learned = [Mixture("gaussian", 1, learner="online-em").fit(frame) for _ in range(2)]
    for one, rows in zip(learned, (frame, frame[["b", "a"]]), strict=True):
        for _, values in rows.iterrows():
            one.learn_one(values)
    np.testing.assert_array_equal(learned[0].means_, learned[1].means_)
    arrays = Mixture("gaussian", 1, learner="em").fit(frame.to_numpy())
    assert arrays.score_one(row) == pytest.approx(arrays.score_samples(row.to_numpy()[None])[0])


def test_an_interval_in_a_dict_is_the_category_that_pandas_makes_of_it() -> None:
    size = RNG.normal(size=90)
    ranges = pd.cut(size + RNG.normal(size=90), [-np.inf, 0.0, np.inf])
    frame = pd.DataFrame({"size": size, "range": ranges})
    model = Mixture("auto", 2, random_state=0).fit(frame)
    row = {"size": 0.5, "range": frame["range"][0]}
    assert str(row["range"]) in model._settings().cells.levels["range"]
    expected = model.score_samples(frame.assign(size=0.5))[0]
    assert model.score_one(row) == model.score_one(row | {"range": str(row["range"])}) == expected
    assert model.learn_one(row).n_rows_ == 91
    with pytest.raises(InvalidInputError, match=r"'size' has Interval.*not a number"):
        model.score_one({"size": row["range"], "range": None})


@pytest.mark.parametrize(
    "cell", [3 + 4j, pd.Period("2026"), object()], ids=["complex", "period", "object"]
)
def test_values_that_are_no_cells_are_refused_by_name(cell: Any) -> None:
    model = Mixture("auto", 2, random_state=0).fit(FRAME)
    row = {name: FRAME[name].tolist()[0] for name in FRAME} | {"colour": cell}
    kind = type(cell).__name__
    with pytest.raises(InvalidInputError, match=rf"'colour' has .*whose type is {kind}: give"):
        model.learn_one(row)
