"""Tables of mixed columns: chosen families, categories, dates and missing cells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mixfold
from mixfold import Mixture
from mixfold.core.errors import InvalidInputError, SourceError
from mixfold.families.bernoulli import Bernoulli
from mixfold.families.categorical import Categorical
from mixfold.families.gamma import Gamma
from mixfold.families.gaussian import Gaussian
from mixfold.families.poisson import Poisson
from mixfold.families.product import Product

N = 600
COLOURS = ("blue", "green", "red")


def table(seed: int = 0, share: float = 0.1) -> pd.DataFrame:
    """Two clusters in columns of all kinds, some of whose cells are missing."""
    rng = np.random.default_rng(seed)
    z = rng.integers(2, size=N)
    frame = pd.DataFrame(
        {
            "height": rng.normal(160.0 + 15.0 * z, 5.0),
            "visits": rng.poisson(2.0 + 10.0 * z).astype(float),
            "income": np.exp(rng.normal(1.0 + 2.0 * z, 0.7)),
            "share": rng.beta(2.0 + 4.0 * z, 6.0 - 4.0 * z),
            "member": rng.random(N) < 0.2 + 0.6 * z,
            "colour": np.array(COLOURS)[rng.integers(3, size=N) * (1 - z) + 2 * z],
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(300, size=N), "D"),
            "grade": rng.integers(1, 5, size=N),
        }
    )
    frame["member"] = frame["member"].astype("boolean")
    frame["grade"] = frame["grade"].astype("Int64")
    for column in frame.columns:
        frame.loc[rng.random(N) < share, column] = None
    return frame


FRAME = table()


@pytest.fixture(scope="module")
def fitted() -> Mixture:
    return Mixture("auto", 2, random_state=0).fit(FRAME)


def test_families_are_chosen_by_what_columns_hold(fitted: Mixture) -> None:
    found = {choice.column: type(choice.family).__name__ for choice in fitted.chosen_families_}
    assert found["height"] == "Gaussian"
    assert found["visits"] in ("Poisson", "NegativeBinomialSizes")
    assert found["income"] in ("LogNormal", "Gamma")
    assert found["share"] == "Beta"
    assert found["member"] == "Bernoulli"
    assert found["colour"] == "Categorical"
    assert found["day"] == "Gaussian"
    assert found["grade"] == "Categorical"
    assert all(choice.reason for choice in fitted.chosen_families_)


def test_clusters_are_found(fitted: Mixture) -> None:
    heights = np.sort(fitted.means_[:, 0])
    np.testing.assert_allclose(heights, [160.0, 175.0], atol=2.0)
    assert np.isnan(fitted.means_[:, 5]).all()  # colours have no mean
    assert fitted.parameters_["colour"]["probabilities"].shape == (2, 1, 3)


def as_polars(frame: pd.DataFrame) -> Any:
    return pl.from_pandas(frame)


def as_arrow(frame: pd.DataFrame) -> Any:
    made = pa.Table.from_pandas(frame, preserve_index=False)
    i = made.schema.get_field_index("colour")
    return made.set_column(i, "colour", made.column(i).dictionary_encode())


def as_categories(frame: pd.DataFrame) -> Any:
    return frame.assign(colour=frame["colour"].astype("category"))


@pytest.mark.parametrize("convert", [as_polars, as_arrow, as_categories])
def test_tables_of_all_libraries_are_alike(fitted: Mixture, convert: Any) -> None:
    other = Mixture("auto", 2, random_state=0).fit(convert(FRAME))
    np.testing.assert_allclose(other.score(convert(FRAME)), fitted.score(FRAME), rtol=1e-12)


@pytest.mark.parametrize("kind", ["parquet", "csv", "feather"])
def test_files_are_read_as_tables(fitted: Mixture, kind: str, tmp_path: Path) -> None:
    file = tmp_path / f"rows.{kind}"
    if kind == "parquet":
        pq.write_table(as_arrow(FRAME), file, row_group_size=97)
    elif kind == "csv":
        FRAME.to_csv(file, index=False)
    else:
        FRAME.to_feather(file)
    other = Mixture("auto", 2, random_state=0).fit(str(file))
    assert other.score(str(file)) == pytest.approx(fitted.score(FRAME), abs=1e-8)
    assert other.score(FRAME) == pytest.approx(fitted.score(FRAME), abs=1e-8)


def test_model_files_keep_the_categories(fitted: Mixture, tmp_path: Path) -> None:
    fitted.save(tmp_path / "m.mixfold")
    again = mixfold.load(tmp_path / "m.mixfold")
    np.testing.assert_array_equal(again.score_samples(FRAME), fitted.score_samples(FRAME))
    again.partial_fit(FRAME.head(50))
    assert again.n_rows_ == N + 50


def test_a_stream_learns_a_table(fitted: Mixture) -> None:
    model = Mixture("auto", 2, random_state=0)
    for first in range(0, N, 100):
        model.partial_fit(FRAME.iloc[first : first + 100])
    assert model.n_rows_ == N
    assert model.score(FRAME) == pytest.approx(fitted.score(FRAME), abs=0.05)


def test_learn_one_takes_a_dict_with_missing_columns() -> None:
    model = Mixture("auto", 2, random_state=0).fit(FRAME)
    model.learn_one({"height": 170.0, "colour": "red", "visits": None})
    assert model.n_rows_ == N + 1
    with pytest.raises(InvalidInputError, match=r"'colour' has 'mauve'.*known are.*own-level"):
        model.conditional({"height": 170.0, "colour": "mauve"})


def test_a_product_takes_the_columns_it_names(fitted: Mixture) -> None:
    family = Product({"height": Gaussian(), "visits": "poisson", "colour": Categorical()})
    model = Mixture(family, 2, random_state=0).fit(FRAME)
    assert model.feature_names_in_.tolist() == ["height", "visits", "colour"]
    assert model.score(FRAME) == model.score(FRAME[["height", "visits", "colour"]])


def test_overrides_replace_choices() -> None:
    overrides = {"visits": Poisson(), ("height", "income"): Gaussian()}
    model = Mixture("auto", 2, overrides=overrides, random_state=0).fit(FRAME)
    assert model.parameters_["height", "income"]["covariances"].shape == (2, 2, 2)
    assert type(dict(_families(model))["visits"]) is Poisson


def _families(model: Mixture) -> list[tuple[Any, Any]]:
    return [(choice.column, choice.family) for choice in model.chosen_families_]


def test_new_categories_are_refused_or_have_a_level_of_their_own(fitted: Mixture) -> None:
    new = FRAME.head(20).assign(colour="mauve")
    with pytest.raises(SourceError, match=r"'colour' has 'mauve'.*known are blue, green, red"):
        fitted.score(new)
    model = Mixture("auto", 2, unseen="own-level", random_state=0).fit(FRAME)
    assert np.isfinite(model.score_samples(new)).all()
    assert model.score(new) < model.score(FRAME.head(20))


def test_samples_are_tables_of_the_same_values(fitted: Mixture) -> None:
    drawn, labels = fitted.sample(200)
    assert list(drawn.columns) == list(FRAME.columns)
    assert set(drawn["colour"]) <= set(COLOURS)
    assert set(drawn["grade"]) <= {1, 2, 3, 4}
    assert len(labels) == 200
    assert np.isfinite(fitted.score_samples(drawn)).all()


def test_imputed_tables_have_no_holes_and_keep_what_was_there(fitted: Mixture) -> None:
    for method in ("mean", "mode", "draw"):
        filled = fitted.impute(FRAME, method=method)
        assert not filled.isna().any().any()
        there = FRAME["height"].notna()
        np.testing.assert_array_equal(filled["height"][there], FRAME["height"][there])
        assert set(filled["colour"]) <= set(COLOURS)


def test_explanations_name_the_column_that_is_odd(fitted: Mixture) -> None:
    row = FRAME.dropna().head(1).copy()
    row["visits"] = 90.0
    assert fitted.explain(row).iloc[0].idxmin() == "visits"


def test_marginal_and_conditional_mixtures(fitted: Mixture) -> None:
    small = fitted.marginal(["height", "colour"])
    rows = FRAME[["height", "colour"]]
    others = FRAME.copy()
    others[[c for c in FRAME.columns if c not in rows.columns]] = None
    np.testing.assert_allclose(small.score_samples(rows), fitted.score_samples(others))
    tall = fitted.conditional({"height": 175.0, "colour": "red"})
    assert tall.feature_names_in_.tolist() == [c for c in FRAME if c not in rows.columns]
    low = fitted.conditional({"height": 160.0, "colour": "blue"})
    assert tall.weights_ @ tall.means_[:, 0] > 2.0 * (low.weights_ @ low.means_[:, 0])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda f: Mixture("auto", 2).fit(f.assign(height=None)), "'height' has no values"),
        (
            lambda f: Mixture("auto", 2).fit(f.assign(name=[f"n{i}" for i in range(N)] * 1)),
            None,
        ),
        (
            lambda f: Mixture("auto", 2, overrides={"nothing": Gamma()}).fit(f),
            "'nothing', which the data do not have",
        ),
        (
            lambda f: Mixture("auto", 2, overrides={"colour": Poisson()}).fit(f),
            "values that are not numbers",
        ),
        (
            lambda f: Mixture("auto", 2, overrides={"colour": Bernoulli()}).fit(f),
            "3 levels",
        ),
        (lambda f: Mixture("gaussian", 2, overrides={"visits": Poisson()}).fit(f), "overrides"),
        (
            lambda f: Mixture(Product({"nothing": Gaussian()}), 2).fit(f),
            "no column 'nothing'",
        ),
        (lambda f: Product({"a": Gaussian(), ("a", "b"): Gaussian()}), "'a' has two families"),
        (lambda f: Mixture("auto", 2, missing="drop").fit(f), "unknown missing 'drop'"),
        (
            lambda f: Mixture("auto", 2).fit(f.assign(bag=[[1, 2]] * N)),
            "'bag' is list",
        ),
    ],
)
def test_mistakes_are_explained(make: Any, says: str | None) -> None:
    if says is None:
        make(FRAME)  # few texts are categories
        return
    with pytest.raises(ValueError, match=says):
        make(FRAME)


def test_a_column_of_which_no_cell_is_observed_is_refused() -> None:
    x = np.column_stack([np.arange(100.0), np.full(100, np.nan)])
    with pytest.raises(InvalidInputError, match=r"column 2 \(counted from 1\) has no values"):
        Mixture("gaussian", 2).fit(x)


def test_many_texts_are_no_categories() -> None:
    frame = pd.DataFrame({"x": np.arange(1200.0), "name": [f"n{i}" for i in range(1200)]})
    with pytest.raises(InvalidInputError, match=r"'name' has 1,200 different values"):
        Mixture("auto", 2).fit(frame)


def test_values_outside_the_support_are_named(fitted: Mixture) -> None:
    bad = FRAME.dropna().head(5).copy()
    bad.loc[bad.index[2], "share"] = 2.0
    with pytest.raises(InvalidInputError, match=r"row 3 .*'share' is 2\.0"):
        fitted.score(bad)


def test_conditioning_on_everything_or_nothing_is_refused(fitted: Mixture) -> None:
    row = FRAME.dropna().iloc[0].to_dict()
    row["day"] = 20_000.0
    for given in (dict[str, Any](), row):
        with pytest.raises(InvalidInputError, match="given"):
            fitted.conditional(given)
    with pytest.raises(InvalidInputError, match="'nothing' is none of the model's"):
        fitted.marginal(["nothing"])


def test_whole_numbers_of_few_rows_are_no_levels() -> None:
    flow = [80, 80, 75, 62, 62, 62, 62, 62, 58, 58, 58, 58, 58, 58, 50, 50, 50, 50, 50, 56, 70]
    for times, levels in ((1, None), (3, (50, 56, 58, 62, 70, 75, 80))):
        table = pd.DataFrame({"flow": flow * times})
        (choice,) = Mixture("auto", 1).fit(table).chosen_families_
        assert choice.levels == levels
