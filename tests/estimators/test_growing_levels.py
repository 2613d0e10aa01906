"""Categories that appear while a stream is learned become levels of their columns."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import mixfold
from mixfold import Bernoulli, Categorical, Mixture, Product
from mixfold.core.errors import InvalidInputError, SourceError
from mixfold.core.value import equal
from mixfold.learners.drift_aware import DriftAware
from mixfold.learners.online_em import OnlineEM
from mixfold.learners.reservoir_em import ReservoirEM

N = 480
LEARNERS: list[Any] = [
    "auto",
    "exact-mle",
    "k-mle",
    "mini-batch-em",
    OnlineEM(batch_size=13, average_from=20),
    "recursive-em",
    "sem",
    DriftAware(OnlineEM(), window=50),
    ReservoirEM(memory_budget=1, starts=2),
]


def table(seed: int = 0) -> pd.DataFrame:
    """Two clusters; "late" has more levels the later it is, "few" some numbers."""
    rng = np.random.default_rng(seed)
    z = rng.integers(2, size=N)
    most = 2 + 5 * np.arange(N) // N
    frame = pd.DataFrame(
        {
            "x": rng.normal(3.0 * z),
            "late": np.array(list("dbfaec"))[(rng.random(N) * (most - 0.5 * z)).astype(int)],
            "yes": np.where(rng.random(N) < 0.2 + 0.6 * z, "y", "n"),
            "few": 2.0 + rng.integers(3, size=N),
        }
    )
    frame.loc[400, "few"] = 9.0
    frame["gaps"] = frame["late"].where(rng.random(N) > 0.1, None)
    frame.loc[:59, "gaps"] = frame["late"]
    return frame


FRAME = table()


def streamed(frame: Any, *ends: int, **settings: Any) -> Mixture:
    model = Mixture("auto", **({"n_components": 2, "random_state": 0} | settings))
    for start, stop in zip([0, *ends], [*ends, len(frame)], strict=True):
        model.partial_fit(frame[start:stop])
    return model


def levels_of(model: Mixture) -> dict[str, Any]:
    return {choice.column: choice.levels for choice in model.chosen_families_}


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_blocks_do_not_matter(learner: Any) -> None:
    whole = streamed(FRAME, learner=learner)
    for ends in ([50, 51, 300], [*range(60, N, 7)]):
        other = streamed(FRAME, *ends, learner=learner)
        assert levels_of(other) == levels_of(whole)
        assert equal(other.params_, whole.params_)
    assert whole.score(FRAME) == other.score(FRAME)


def test_levels_have_the_order_in_which_they_appear() -> None:
    model = streamed(FRAME, 40, 90)
    found = levels_of(model)
    for column in ("late", "yes", "few", "gaps"):
        assert list(found[column]) == list(FRAME[column].dropna().unique())
    assert found["x"] is None
    reasons = {choice.column: choice.reason for choice in model.chosen_families_}
    assert reasons["late"] == "values that are not numbers, 6 of them"
    assert reasons["yes"] == "values that are not numbers, two of them"
    assert type(model.chosen_families_[2].family) is Bernoulli


def test_a_stream_gives_what_a_fit_of_its_rows_gives() -> None:
    fitted = Mixture("auto", 2, random_state=0).fit(FRAME)
    assert list(levels_of(fitted)["late"]) == list("abcdef")
    assert streamed(FRAME, 60, 200).score(FRAME) == pytest.approx(fitted.score(FRAME), abs=1e-9)


@pytest.mark.parametrize("learner", ["auto", "exact-mle", ReservoirEM(memory_budget=1)], ids=repr)
def test_one_component_has_the_frequencies_of_all_rows(learner: Any) -> None:
    frame = pd.concat([FRAME, table(1), table(2)], ignore_index=True)
    model = streamed(frame, 60, 61, 700, n_components=1, learner=learner)
    for column in ("late", "gaps"):
        shares = frame[column].value_counts(normalize=True)
        expected = [shares[level] for level in levels_of(model)[column]]
        found = model.parameters_[column]["probabilities"].ravel()
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_learn_one_takes_new_categories() -> None:
    rows = FRAME.astype(object).where(FRAME.notna(), None).to_dict("records")
    model = streamed(FRAME[:100])
    for row in rows[100:]:
        model.learn_one(row)
    assert equal(model.params_, streamed(FRAME, 100).params_)
    model.learn_one({"x": 0.0, "late": "new", "few": 11})
    assert levels_of(model)["late"][-1] == "new"
    assert levels_of(model)["few"][-1] == 11


def test_learn_one_begins_with_a_category() -> None:
    model = Mixture(Product({"x": "gaussian", "late": "categorical"}), 1, random_state=0)
    for row in FRAME[["x", "late"]].to_dict("records"):
        model.learn_one(row)
    found = model.parameters_["late"]["probabilities"].ravel()
    expected = FRAME["late"].value_counts(normalize=True, sort=False)
    np.testing.assert_allclose(found, expected[FRAME["late"].unique()], rtol=1e-6)


def test_several_blocks_of_one_call() -> None:
    def blocks() -> Iterator[pd.DataFrame]:
        yield from (FRAME[start : start + 60] for start in range(120, N, 60))

    model = streamed(FRAME[:120]).partial_fit(blocks())
    assert equal(model.params_, streamed(FRAME).params_)


def test_learning_after_a_fit_adds_levels() -> None:
    early = FRAME[FRAME["late"].isin(["b", "d"])]
    model = Mixture("auto", 1, random_state=0).fit(early)
    model.partial_fit(FRAME.drop(early.index))
    assert levels_of(model)["late"][:2] == ("b", "d")
    expected = FRAME["late"].value_counts(normalize=True)[list(levels_of(model)["late"])]
    found = model.parameters_["late"]["probabilities"].ravel()
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_prediction_refuses_what_was_not_learned() -> None:
    model = streamed(FRAME[:200])
    new = FRAME[:3].assign(late="new")
    with pytest.raises(SourceError, match=r"'late' has 'new', which was not .*known are b, d"):
        model.predict(new)
    model.partial_fit(new)
    assert np.isfinite(model.score_samples(new)).all()


def test_an_own_level_takes_the_place_of_new_ones() -> None:
    model = streamed(FRAME, 150, unseen="own-level")
    assert levels_of(model)["late"] == tuple(sorted(set(FRAME["late"][:150])))


SCHEMAS: dict[str, Any] = {
    "pandas": lambda column: pd.DataFrame(
        {"c": pd.Categorical(column, categories=["w", "v", "u", "t"])}
    ),
    "arrow": lambda column: pa.table(
        {"c": pa.DictionaryArray.from_arrays([list("wvut").index(c) for c in column], list("wvut"))}
    ),
    "polars": lambda column: pl.DataFrame({"c": pl.Series(column, dtype=pl.Enum(list("wvut")))}),
}


@pytest.mark.parametrize("kind", SCHEMAS)
def test_levels_without_rows_are_taken_from_the_schema(kind: str) -> None:
    early, late = SCHEMAS[kind](list("uvuvvu") * 9), SCHEMAS[kind](["t"])
    model = Mixture("auto", 1, random_state=0).partial_fit(early)
    assert levels_of(model)["c"] == ("w", "v", "u", "t")
    assert np.isfinite(model.score(late))
    fitted = Mixture("auto", 1, random_state=0).fit(early)
    assert levels_of(fitted)["c"] == ("t", "u", "v", "w")
    assert fitted.score(late) == pytest.approx(model.score(late))


def test_categories_in_another_order_are_numbered_by_the_rows() -> None:
    def as_categories(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.astype({"late": "category"})

    model = streamed(FRAME[:60])
    other = copy(model)
    model.partial_fit(FRAME[60:])
    other.partial_fit(as_categories(FRAME[60:]))
    assert levels_of(other) == levels_of(model)
    assert equal(other.params_, model.params_)


def _unchanged(model: Mixture, data: Any, says: str) -> None:
    before, state = levels_of(model), model.params_
    with pytest.raises(InvalidInputError, match=says):
        model.partial_fit(data)
    assert levels_of(model) == before
    assert equal(model.params_, state)


def test_what_cannot_become_a_level_is_refused() -> None:
    model = streamed(FRAME.assign(flag=FRAME["x"] > 1.0))
    same = FRAME[:5].assign(flag=True)
    _unchanged(model, same.assign(few="two"), r"'few' has 'two', which is text.*store the column")
    _unchanged(model, same.assign(late=3), r"'late' has 3, which is a number.*store the column")
    _unchanged(model, same.assign(flag="maybe"), r"'flag' has 'maybe', which is text.*yes or no")
    many = pd.concat([same] * 300).assign(late=[f"n{i}" for i in range(1500)])
    _unchanged(model, many, r"'late' has 'n994' and 1,000 other values.*leave it out")


def test_a_given_bernoulli_has_two_levels() -> None:
    model = streamed(FRAME, overrides={"yes": Bernoulli()})
    _unchanged(model, FRAME[:2].assign(yes="perhaps"), r"'yes' has 'perhaps' .*use Categorical\(\)")
    wider = streamed(FRAME, overrides={"yes": Categorical()})
    wider.partial_fit(FRAME[:2].assign(yes="perhaps"))
    assert wider.parameters_["yes"]["probabilities"].shape == (2, 1, 3)


def test_a_model_file_continues_to_grow(tmp_path: Path) -> None:
    model = streamed(FRAME[:100])
    model.save(tmp_path / "m.mixfold")
    again = mixfold.load(tmp_path / "m.mixfold")
    assert str(again.chosen_families_) == str(model.chosen_families_)
    model.partial_fit(FRAME[100:])
    again.partial_fit(FRAME[100:])
    assert equal(again.params_, model.params_)
    assert str(again.chosen_families_) == str(model.chosen_families_)


def test_copies_that_grew_alike_can_be_merged_and_others_not() -> None:
    model = streamed(FRAME[:100], learner="online-em")
    one, two, other = copy(model), copy(model), copy(model)
    late = FRAME[FRAME["late"].isin(set(FRAME["late"][:100]))][100:]
    one.partial_fit(late[:50].assign(late="new"))
    two.partial_fit(late[50:90].assign(late="new"))
    assert mixfold.merge([one, two]).n_rows_ == 190
    other.partial_fit(late[90:100].assign(late="else"))
    with pytest.raises(InvalidInputError, match=r"levels of columns.*'new'.*'else'"):
        mixfold.merge([one, other])


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_rare_numbers_that_the_sample_lacks_are_levels(learn: str) -> None:
    rng = np.random.default_rng(0)
    few = rng.integers(1, 4, 30_000)
    few[-1] = 7
    frame = pd.DataFrame({"few": few, "zero": few == 2})
    model: Mixture = getattr(Mixture("auto", 1, random_state=0), learn)(frame)
    assert sorted(levels_of(model)["few"]) == [1, 2, 3, 7]


def test_arrays_of_codes_bring_no_levels() -> None:
    frame = FRAME[["x", "late"]]
    model = Mixture("auto", 1, random_state=0).partial_fit(frame[:100])
    known = len(levels_of(model)["late"])
    rows = np.array([[0.0, 0.0], [1.0, known]])
    with (
        pytest.warns(UserWarning, match="feature names"),
        pytest.raises(InvalidInputError, match=rf"row 2 .*'late' is {known}\.0: .*from 0 to"),
    ):
        model.partial_fit(rows)
    assert model.n_rows_ == 100


def test_posteriors_need_all_levels_at_the_beginning() -> None:
    family = Product({"x": "gaussian", "late": "categorical"})
    model = Mixture(family, 1, learner="moment-matching", random_state=0)
    model.partial_fit(FRAME[:200])
    new = FRAME[:5].assign(late="new")
    before = model.posterior_
    with pytest.raises(SourceError, match=r"'late' has 'new'.*categorical type"):
        model.partial_fit(new)
    assert equal(model.posterior_, before)
    levels = [*FRAME["late"].unique(), "new"]
    whole, parts = (Mixture(family, 1, learner="moment-matching", random_state=0) for _ in "ab")
    typed = pd.concat([FRAME, new], ignore_index=True)
    typed["late"] = pd.Categorical(typed["late"], categories=levels)
    whole.partial_fit(typed)
    parts.partial_fit(typed[:100]).partial_fit(typed[100:])
    assert equal(parts.posterior_, whole.posterior_)


def test_only_auto_has_chosen_families(tmp_path: Path) -> None:
    model = Mixture("auto", 1).fit(FRAME)
    model.set_params(family="gaussian").fit(FRAME[["x"]])
    assert not hasattr(model, "chosen_families_")
    assert not hasattr(Mixture("auto"), "chosen_families_")
    model.save(tmp_path / "m.mixfold")
    assert not hasattr(mixfold.load(tmp_path / "m.mixfold"), "chosen_families_")
