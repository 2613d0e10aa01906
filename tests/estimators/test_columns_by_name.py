"""Columns of tables are found by name in every call, and all others are ignored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.model_selection import cross_val_score

import mixfold
from mixfold import GaussianMixture, Mixture
from mixfold.core.errors import InvalidInputError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2)) + np.array([[0.0, 8.0]]) * RNG.integers(2, size=(120, 1))
WEIGHT = RNG.integers(1, 4, size=120).astype(float)
FRAME = pd.DataFrame({"id": np.arange(120), "b": X[:, 1], "a": X[:, 0], "w": WEIGHT})
WITH_TEXT = FRAME.assign(species="setosa")

KINDS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    name: lambda model, data, name=name: getattr(model, name)(data)
    for name in ("predict", "predict_proba", "score_samples", "score", "bic", "aic", "icl")
} | {"score_bound": lambda model, data: model.score_bound(data)}


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest) -> Any:
    return KINDS[request.param](WITH_TEXT)


def plain() -> Any:
    """The same model, learned from an array."""
    return Mixture(n_components=2, random_state=0).fit(X)


def test_every_call_finds_the_columns_of_fit(table: Any) -> None:
    model = Mixture(n_components=2, columns=["a", "b"], random_state=0).fit(table)
    assert list(model.feature_names_in_) == ["a", "b"]
    expected = plain()
    for name, call in CALLS.items():
        np.testing.assert_allclose(call(model, table), call(expected, X), err_msg=name)
    np.testing.assert_array_equal(model.fit_predict(table), expected.predict(X))
    assert model.sample(3)[0].shape == (3, 2)
    model.partial_fit(table)
    assert model.n_features_in_ == 2


@pytest.mark.parametrize("estimator", [Mixture, GaussianMixture])
def test_a_weight_column_is_no_feature_afterwards(estimator: Any, table: Any) -> None:
    columns = ["a", "b", "w"]
    table = table.select(columns) if hasattr(table, "select") else table[columns]
    model = estimator(n_components=2, random_state=0).fit(table, sample_weight="w")
    assert list(model.feature_names_in_) == ["a", "b"]
    expected = estimator(n_components=2, random_state=0).fit(X, sample_weight=WEIGHT)
    for name, call in CALLS.items():
        np.testing.assert_allclose(call(model, table), call(expected, X), err_msg=name)
    labels = estimator(n_components=2, random_state=0).fit_predict(table, sample_weight="w")
    np.testing.assert_array_equal(labels, expected.predict(X))
    model.partial_fit(table, sample_weight="w")
    assert model.n_features_in_ == 2


def test_columns_may_stand_in_any_order(table: Any) -> None:
    model = Mixture(n_components=2, columns=["a", "b"], random_state=0).fit(table)
    expected = plain().score_samples(X)
    for frame in (FRAME[["b", "a"]], FRAME[["w", "b", "id", "a"]], FRAME[["a", "b"]]):
        for make in KINDS.values():
            np.testing.assert_allclose(model.score_samples(make(frame)), expected)


def test_a_loaded_model_finds_its_columns(table: Any, tmp_path: Path) -> None:
    frame = FRAME[["a", "b", "w"]]
    models = {
        "columns": Mixture(n_components=2, columns=["a", "b"], random_state=0).fit(table),
        "weight": Mixture(n_components=2, random_state=0).fit(frame, sample_weight="w"),
    }
    for name, model in models.items():
        model.save(tmp_path / name)
        loaded = mixfold.load(tmp_path / name)
        np.testing.assert_array_equal(loaded.predict(table), model.predict(table))


def test_a_model_of_a_file_scores_frames_with_more_columns(tmp_path: Path) -> None:
    FRAME.to_parquet(tmp_path / "x.parquet", index=False)
    columns = ["a", "b"]
    model = Mixture(n_components=2, columns=columns, random_state=0).fit(tmp_path / "x.parquet")
    np.testing.assert_allclose(model.score_samples(WITH_TEXT), plain().score_samples(X))


def test_cross_validation_with_columns() -> None:
    expected = cross_val_score(Mixture(n_components=2, random_state=0), X, cv=3)
    shuffled = np.random.default_rng(1).permutation(len(X))
    for make in (KINDS["pandas"], KINDS["polars"]):
        model = Mixture(n_components=2, columns=["a", "b"], random_state=0)
        np.testing.assert_allclose(cross_val_score(model, make(WITH_TEXT), cv=3), expected)
        scores = cross_val_score(
            Mixture(n_components=2, random_state=0),
            make(FRAME[["a", "b", "w"]].iloc[shuffled]),
            cv=3,
            params={"sample_weight": "w"},
        )
        assert np.isfinite(scores).all()


def test_the_index_of_a_frame_is_no_column() -> None:
    for index in (pd.Index(np.arange(120) * 7), pd.Index(np.arange(120), name="time")):
        frame = FRAME[["a", "b", "w"]].set_index(index)
        model = Mixture(n_components=2, random_state=0).fit(frame, sample_weight="w")
        assert list(model.feature_names_in_) == ["a", "b"]
        blocks = Mixture(n_components=2, random_state=0).fit([frame[:60], frame[60:]])
        assert list(blocks.feature_names_in_) == ["a", "b", "w"]


def test_arrays_still_score_and_scikit_learn_compares_whole_frames() -> None:
    model = Mixture(n_components=2, columns=["a", "b"], random_state=0).fit(FRAME)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        np.testing.assert_allclose(model.score_samples(X), plain().score_samples(X))
    whole = Mixture(n_components=2, random_state=0).fit(FRAME[["a", "b"]])
    with pytest.raises(ValueError, match="must be in the same order"):
        whole.predict(FRAME[["b", "a"]])
    with pytest.raises(ValueError, match="yet now missing"):
        whole.predict(FRAME[["a", "w"]])
    with pytest.raises(ValueError, match="yet now missing"):
        whole.predict(FRAME[["a"]])


@pytest.mark.parametrize("kind", KINDS)
def test_names_that_are_not_there(kind: str) -> None:
    table = KINDS[kind](FRAME)
    with pytest.raises(ValueError, match=r"no column 'z'.*id, b, a, w"):
        Mixture(columns=["a", "z"]).fit(table)
    with pytest.raises(ValueError, match=r"no column 'z'"):
        Mixture().fit(table, sample_weight="z")
    model = Mixture(columns=["a", "b"]).fit(table)
    with pytest.raises(ValueError, match=r"no column 'b'"):
        model.predict(KINDS[kind](FRAME[["a", "w"]]))
    with pytest.raises(ValueError, match=r"'a'.*twice"):
        Mixture(columns=["a", "a"]).fit(table)


def test_columns_are_a_list_of_text() -> None:
    with pytest.raises(InvalidInputError, match=r"columns is \[0, 1\]: a list of names"):
        Mixture(columns=[0, 1]).fit(FRAME)  # type: ignore[list-item]
    with pytest.raises(InvalidInputError, match="columns is 'a': a list of names"):
        Mixture(columns="a").fit(FRAME)
    with pytest.raises(ValueError, match=r"no column '0'.*text"):
        Mixture(columns=["0"]).fit(pd.DataFrame(X))


def test_columns_of_frames_may_be_whole_numbers() -> None:
    counts = np.random.default_rng(1).poisson(3.0, size=120)
    frame = pd.DataFrame(np.column_stack([X, counts]), columns=[7, 2, 0])
    model = Mixture("auto", 2, overrides={0: "geometric"}, random_state=0).fit(frame)
    assert "Geometric" in str(model.chosen_families_[-1].family)
    by_number = Mixture("auto", 2, overrides={2: "geometric"}, random_state=0).fit(frame.to_numpy())
    assert by_number.score(frame.to_numpy()) == pytest.approx(model.score(frame))
    for column in frame.columns:  # NumPy's numbers
        assert model.marginal([column]).feature_names_in_.tolist() == [str(column)]
        given = model.conditional({column: 1.0})
        assert str(column) not in given.feature_names_in_
    with pytest.raises(InvalidInputError, match="column 3"):
        model.marginal([3])
