"""Columns that appear on a stream, and streams without end."""

from __future__ import annotations

import tracemalloc
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mixfold import Gaussian, Mixture, ReservoirEM
from mixfold.core.errors import InvalidInputError, LearningWarning
from mixfold.core.value import equal

Row = dict[str, float]
DEGENERATE = "ignore::mixfold.errors.DegenerateComponentsWarning"


def rows(n: int, columns: str, seed: int = 0) -> list[Row]:
    rng = np.random.default_rng(seed)
    group = rng.integers(2, size=n)
    found = [rng.normal(size=n) + far * group for far in (5.0, -5.0, 3.0)]
    named = dict(zip("abc", found, strict=True))
    return [{name: float(named[name][i]) for name in columns} for i in range(n)]


STREAM = [*rows(150, "ab"), *rows(150, "cab", 1), *rows(50, "ca", 2)]


@pytest.mark.filterwarnings(DEGENERATE)
@pytest.mark.parametrize("family", ["gaussian", Gaussian("diag"), "laplace"])
def test_a_new_column_is_learned_as_one_that_was_missing(family: Any) -> None:
    learn = Mixture(family, 2, new_columns="learn", random_state=0)
    named = Mixture(family, 2, columns=["a", "b", "c"], random_state=0)
    for row in STREAM:
        learn.learn_one(row)
        named.learn_one(row)
    assert learn.feature_names_in_.tolist() == ["a", "b", "c"]
    assert learn.n_rows_ == len(STREAM)
    assert equal(learn.params_, named.params_)
    gaps = Mixture(family, 2, random_state=0)
    gaps.partial_fit(pd.DataFrame(STREAM)[["a", "b", "c"]])
    assert equal(learn.params_, gaps.params_)
    assert learn.score_one(STREAM[-1]) == gaps.score_one(STREAM[-1])


@pytest.mark.filterwarnings(DEGENERATE)
@pytest.mark.parametrize("table", [pd.DataFrame, pa.Table.from_pylist])
def test_tables_with_new_columns_are_learned(table: Any) -> None:
    """New columns come last, as scikit-learn wants the columns of a frame in one order."""
    later = [{name: row[name] for name in "abc"} for row in STREAM[150:300]]
    learn = Mixture("gaussian", 2, new_columns="learn", random_state=0)
    learn.partial_fit(table(STREAM[:150])).partial_fit(table(later))
    one = Mixture("gaussian", 2, new_columns="learn", random_state=0)
    for row in STREAM[:300]:
        one.learn_one(row)
    assert equal(learn.params_, one.params_)


@pytest.mark.filterwarnings(DEGENERATE)
def test_a_new_column_among_the_first_rows() -> None:
    """Before the initialisation rows wait, for any learner."""
    for learner in ("auto", "online-em", "drift-aware"):
        model = Mixture("gaussian", 2, learner=learner, new_columns="learn", random_state=0)
        for row in [{"a": 1.0}, {"a": 2.0, "b": 3.0}, {"b": 1.0, "c": 2.0}]:
            model.learn_one(row)
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
        assert model.n_rows_ == 3


def test_new_columns_are_ignored_with_one_warning() -> None:
    model = Mixture("gaussian", 2, new_columns="ignore", random_state=0)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", LearningWarning)
        for row in STREAM:
            model.learn_one(row)
    assert [str(one.message) for one in found] == ["new columns are ignored: ['c']"]
    plain = Mixture("gaussian", 2, random_state=0)
    for row in STREAM:
        plain.learn_one({name: x for name, x in row.items() if name != "c"})
    assert equal(model.params_, plain.params_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.score_one({**STREAM[0], "z": 9.0}) == plain.score_one(STREAM[0])


@pytest.mark.filterwarnings(DEGENERATE)
def test_new_columns_of_dicts_are_learned_by_default_and_told() -> None:
    model = Mixture("gaussian", 2, random_state=0).partial_fit(pd.DataFrame(STREAM[:150]))
    assert model.score_one(STREAM[200]) == model.score_one(STREAM[200] | {"c": 9.0})
    with pytest.warns(LearningWarning, match=r"new columns are learned.*: \['c'\]") as found:
        model.learn_one(STREAM[200])
    assert found[0].filename == __file__
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    learn = Mixture("gaussian", 2, new_columns="learn", random_state=0)
    learn.partial_fit(pd.DataFrame(STREAM[:150])).learn_one(STREAM[200])
    assert equal(model.params_, learn.params_)


def test_new_columns_of_dicts_are_ignored_where_rows_are_not_kept() -> None:
    model = Mixture("gaussian", 2, learner="online-em", random_state=0)
    model.partial_fit(pd.DataFrame(STREAM[:150]))
    with pytest.warns(
        LearningWarning, match=r"ignored: \['c'\].*online-em does not.*columns="
    ) as found:
        model.learn_one(STREAM[200])
    assert found[0].filename == __file__
    model.learn_one(STREAM[201])
    assert (model.n_features_in_, model.n_rows_) == (2, 152)


def test_names_of_ignored_columns_are_bounded() -> None:
    model = Mixture("gaussian", 2, new_columns="ignore", random_state=0)
    model.partial_fit(pd.DataFrame(STREAM[:150]))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for i in range(300):
            model.learn_one({**rows(1, "ab")[0], f"x{i}": 1.0})
    assert len(found) == 100
    assert len(model._ignored) == 100


def test_new_columns_that_are_refused() -> None:
    plain = Mixture("gaussian", 2, new_columns="error", random_state=0)
    plain.partial_fit(pd.DataFrame(STREAM[:150]))
    for act in (plain.learn_one, plain.score_one):
        with pytest.raises(InvalidInputError, match="new_columns='learn'"):
            act(STREAM[200])
    for settings in ({"learner": "online-em"}, {"learner": ReservoirEM(memory_budget=1)}):
        model = Mixture("gaussian", 2, new_columns="learn", random_state=0, **settings)
        model.partial_fit(pd.DataFrame(rows(1500, "ab")))
        before = model.params_
        with pytest.raises(
            InvalidInputError, match=r"new columns, \['c'\].*does not keep.*columns="
        ):
            model.learn_one(STREAM[200])
        assert equal(model.params_, before)
        assert model.n_rows_ == 1500
    fitted = Mixture("gaussian", 2, new_columns="learn", random_state=0)
    with pytest.raises(InvalidInputError, match="does not keep"):
        fitted.fit(pd.DataFrame(STREAM[:150])).learn_one(STREAM[200])
    strict = Mixture("gaussian", 2, new_columns="learn", missing="error", random_state=0)
    with pytest.raises(InvalidInputError, match="missing='marginalize'"):
        strict.partial_fit(pd.DataFrame(STREAM[:150])).learn_one(STREAM[200])
    with pytest.raises(InvalidInputError, match="unknown new_columns 'lern'"):
        Mixture(new_columns="lern").partial_fit(np.ones((3, 1)))


def test_a_chosen_list_of_columns_stays() -> None:
    model = Mixture("gaussian", 2, columns=["a", "b"], new_columns="learn", random_state=0)
    for row in STREAM[140:200]:
        model.learn_one(row)
    assert model.n_features_in_ == 2


@pytest.mark.parametrize("learner", ["online-em", ReservoirEM(memory_budget=2**15)])
def test_memory_does_not_grow_with_the_rows(learner: Any) -> None:
    x = np.random.default_rng(0).normal([0.0, 3.0], size=(24_000, 2))
    model = Mixture("gaussian", 2, learner=learner, random_state=0, n_threads=1)
    model.partial_fit(x[:4000])
    sizes = []
    tracemalloc.start()
    for start in range(4000, len(x), 5000):
        for row in x[start : start + 5000]:
            model.learn_one(row)
        model.score_one(x[0])
        sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert sizes[-1] < sizes[0] + 2**16
