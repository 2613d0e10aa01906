"""Tables of mixed columns as strangers use them: what they get, and what they are told."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import mixfold
from mixfold import Mixture, Product
from mixfold.core.errors import InvalidInputError, MixfoldError

N = 200


def people() -> pd.DataFrame:
    """A table with columns of all kinds and a few missing cells."""
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=N)
    frame = pd.DataFrame(
        {
            "age": rng.normal(30 + 30 * z, 5),
            "visits": rng.poisson(1 + 6 * z).astype(float),
            "sex": np.where(rng.random(N) < 0.5, "f", "m"),
            "plan": rng.choice(["a", "b", "c"], N),
            "member": rng.random(N) < 0.5,
            "day": pd.date_range("2020", periods=N),
        }
    )
    frame.loc[3, "age"], frame.loc[4, "sex"], frame.loc[5, "visits"] = np.nan, None, np.nan
    return frame


FRAME = people()


def auto(k: int = 2, **settings: Any) -> Mixture:
    return Mixture("auto", k, random_state=0, **settings)


@pytest.fixture(scope="module")
def model() -> Mixture:
    return auto().fit(FRAME)


KINDS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "arrow dictionaries": lambda frame: pa.table(
        {
            name: column.dictionary_encode() if name in ("sex", "plan") else column
            for name, column in zip(frame.columns, pa.table(frame).columns, strict=True)
        }
    ),
    "polars": pl.from_pandas,
    "polars categories": lambda frame: pl.from_pandas(frame).with_columns(
        pl.col("sex").cast(pl.Categorical), pl.col("plan").cast(pl.Enum(["a", "b", "c"]))
    ),
    "polars query": lambda frame: pl.from_pandas(frame).lazy(),
    "polars as arrow": lambda frame: (
        pl.from_pandas(frame).with_columns(pl.col("plan").cast(pl.Categorical)).to_arrow()
    ),
    "nullable": lambda frame: frame.convert_dtypes(),
    "categories": lambda frame: frame.astype({"sex": "category", "plan": "category"}),
    "other index": lambda frame: frame.set_index(np.arange(N) + 0.5),
    "named index": lambda frame: frame.set_index(pd.Index(np.arange(N) % 7, name="key")),
    "blocks": lambda frame: [frame[:90], frame[90:]],
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_gives_the_same_model(model: Mixture, kind: str) -> None:
    table = KINDS[kind](FRAME)
    found = auto().fit(table)
    assert list(found.feature_names_in_) == list(FRAME.columns)
    assert str(found.chosen_families_) == str(model.chosen_families_)
    np.testing.assert_allclose(found.score(table), model.score(FRAME))


def test_filled_tables_are_like_the_given_ones(model: Mixture) -> None:
    part = FRAME[3:6].set_index(pd.Index([9, 2, 7]))
    filled = model.impute(part)
    assert list(filled.index) == list(model.explain(part).index) == [9, 2, 7]
    assert filled["member"].dtype == bool
    assert not filled.isna().any().any()
    assert isinstance(model.impute(pl.from_pandas(FRAME)), pl.DataFrame)
    assert isinstance(model.impute(pa.table(FRAME)), pa.Table)


def test_yes_and_no_are_filled_and_drawn_as_such() -> None:
    frame = FRAME.assign(member=[None, *FRAME["member"][1:]])
    found = auto(unseen="own-level").fit(frame)
    assert found.impute(frame)["member"].map(type).eq(bool).all()
    assert found.sample(5)[0]["member"].dtype == bool
    np.testing.assert_allclose(
        found.score(frame), found.score(frame.assign(member=frame["member"].astype(float)))
    )


def test_the_more_probable_of_two_levels_is_filled_in() -> None:
    rng = np.random.default_rng(0)
    z = rng.random(N) < 0.5
    often = rng.random(N) < np.where(z, 0.8, 0.2)
    frame = pd.DataFrame(
        {"x": rng.normal(10.0 * z), "yes": often, "word": np.where(often, "public", "private")}
    )
    filled = auto().fit(frame).impute(pd.DataFrame({"x": [0.0, 10.0], "yes": None, "word": None}))
    assert filled["yes"].tolist() == [False, True]
    assert filled["word"].tolist() == ["private", "public"]


def test_conditional_and_marginal_mixtures_know_the_levels(model: Mixture, tmp_path: Path) -> None:
    given = model.conditional({"sex": "f"})
    assert set(given.sample(50)[0]["plan"]) == {"a", "b", "c"}
    assert np.isfinite(given.score(FRAME))
    assert given.conditional({"plan": "a", "member": True}).n_features_in_ == 3
    given.save(tmp_path / "given.mixfold")
    assert mixfold.load(tmp_path / "given.mixfold").score(FRAME) == given.score(FRAME)
    pair = model.marginal(["plan", "age"])
    joint = model.score_samples(FRAME[["age", "plan"]].reindex(columns=FRAME.columns))
    np.testing.assert_allclose(pair.score_samples(FRAME), joint)


@pytest.mark.parametrize(
    "day",
    [
        pd.Timestamp("2020-03-01"),
        np.datetime64("2020-03-01"),
        np.datetime64("2020-03-01", "ns"),
        datetime.date(2020, 3, 1),
        18322,
    ],
)
def test_dates_are_given_as_dates(model: Mixture, day: Any) -> None:
    weights = model.conditional({"day": 18322.0}).weights_
    np.testing.assert_allclose(model.conditional({"day": day}).weights_, weights)
    row = FRAME.iloc[0].to_dict() | {"day": day}
    assert auto().fit(FRAME).learn_one(row).n_rows_ == N + 1


def test_codes_of_categories_have_no_means(model: Mixture) -> None:
    assert "means" not in model.parameters_["plan"]
    np.testing.assert_allclose(model.parameters_["plan"]["probabilities"].sum(axis=-1), 1.0)


def test_splits_of_a_frame_can_be_scored() -> None:
    from sklearn.model_selection import cross_val_score

    assert np.isfinite(cross_val_score(auto(), FRAME.drop(columns="day"), cv=3)).all()


def test_a_product_begins_with_single_rows() -> None:
    product = Product({"age": "gaussian", "visits": "poisson"})
    found = Mixture(product, 1, random_state=0)
    for age, visits in [(20.0, 1), (30.0, 2), (40.0, 3)]:
        found.learn_one({"age": age, "visits": visits})
    np.testing.assert_allclose(found.means_, [[30.0, 2.0]])


TABLES: dict[str, tuple[Callable[[], Any], str]] = {
    "objects": (lambda: FRAME.assign(o=[object()] * N), "cannot be read: .*column o"),
    "text and numbers": (lambda: FRAME.assign(o=["a", 1] * (N // 2)), "values of one type"),
    "two names": (lambda: FRAME.set_axis(["a", "a", *"bcde"], axis=1), "names of their own"),
    "lists": (
        lambda: FRAME.assign(o=[[1, 2]] * N),
        "'o' is list.*: one value a row",
    ),
    "periods": (
        lambda: FRAME.assign(o=pd.period_range("2020", periods=N, freq="M")),
        "'o' is extension.*: make numbers, text or dates",
    ),
    "no values": (lambda: FRAME.assign(o=None), "'o' has no values in 200 rows: leave it out"),
    "no rows": (lambda: FRAME[:0], "no rows"),
    "one column": (lambda: FRAME["age"], "use X.to_frame"),
    "dicts": (lambda: FRAME.to_dict("records"), "X is a list of dicts: .*DataFrame.*score_one"),
    "a dict": (lambda: FRAME.to_dict("list"), "X is a dict: .*DataFrame"),
    "text in an array": (FRAME.to_numpy, "column 3 .* has 'f', which is not a number"),
    "a generator": (lambda: (FRAME for _ in range(2)), "read only once: .*partial_fit"),
    "a reader": (lambda: pa.table(FRAME).to_reader(), "read only once: .*partial_fit"),
    "infinity": (lambda: FRAME.assign(o=[np.inf, *range(N - 1)]), "column 'o' is infinity"),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", TABLES)
def test_tables_that_cannot_be_modelled_are_refused(case: str) -> None:
    data, message = TABLES[case]
    with pytest.raises(MixfoldError, match=message):
        auto().fit(data())


MISTAKES: dict[str, tuple[Callable[[Mixture], Any], str]] = {
    "a list": (lambda m: m.conditional(["age"]), "give a dict"),  # type: ignore[arg-type]
    "one name": (lambda m: m.marginal("age"), "columns is 'age': give a list"),
    "text": (lambda m: m.conditional({"age": "old"}), "'age' has 'old', which is not a number"),
    "nothing": (lambda m: m.conditional({}), "at least one column"),
    "everything": (lambda m: m.conditional(FRAME.iloc[0].to_dict()), "all 6 columns"),
    "a missing value": (lambda m: m.conditional({"sex": None}), "column 'sex' is None"),
    "no count": (lambda m: m.conditional({"visits": -1}), "'visits' is -1.0: .*whole numbers"),
    "a row": (lambda m: m.predict({"age": 3.0}), r"DataFrame\(\[X\]\)"),
    "a first row": (lambda m: auto().learn_one({"age": 3.0}), "some rows to fit or partial_fit"),
    "names": (lambda m: auto(overrides=["age"]).fit(FRAME), "give a dict of columns and families"),
    "columns": (lambda m: auto(columns="age").fit(FRAME), "a list of names"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_named(model: Mixture, case: str) -> None:
    act, message = MISTAKES[case]
    with pytest.raises(InvalidInputError, match=message):
        act(model)
