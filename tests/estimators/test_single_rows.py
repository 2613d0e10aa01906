"""Single rows are evaluated as rows of arrays and tables are."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mixfold import AutoMixture, Gaussian, GaussianMixture, Mixture, StudentT
from mixfold.core.errors import InvalidInputError
from mixfold.families.product import Product

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3)) + 4.0 * RNG.integers(2, size=(400, 1))


@pytest.mark.parametrize(
    "model",
    [
        Mixture("gaussian", 2, random_state=0),
        Mixture(Gaussian("diag"), 2, random_state=0),
        Mixture(StudentT(), 2, random_state=0),
        Mixture("gaussian", 2, learner="moment-matching", random_state=0),
        GaussianMixture(2, random_state=0),
        AutoMixture([2], ["VVV"], random_state=0),
    ],
    ids=lambda model: repr(model)[:60],
)
def test_a_row_is_a_row_of_an_array(model: Any) -> None:
    model.fit(X)
    for x in X[:5]:
        assert model.score_one(x) == pytest.approx(model.score_samples(np.stack([x, x]))[1], 1e-12)
        assert model.score_samples(x[None]).tolist() == [model.score_one(x)]
        assert model.predict_one(x) == model.predict(x[None])[0]
        np.testing.assert_allclose(model.predict_proba_one(x), model.predict_proba(x[None])[0])
        assert model.score_one(x.tolist()) == model.score_one(x[::-1].copy()[::-1])


@pytest.mark.parametrize("family", ["gaussian", "poisson", "student-t"])
def test_few_rows_are_evaluated_as_many(family: str) -> None:
    x = np.abs(RNG.normal(size=(5000, 3)) * 3.0)
    x = x.round() if family == "poisson" else x
    model = Mixture(family, 2, random_state=0).fit(x)
    few = np.concatenate([model.score_samples(part) for part in np.split(x, 50)])
    np.testing.assert_allclose(few, model.score_samples(x), rtol=1e-12)
    holes = x[:20].copy()
    holes[3, 1] = np.nan
    assert model.score_samples(holes)[3] == pytest.approx(model.score_one(holes[3]), rel=1e-12)
    for bad in ([0, 0, np.inf], [0, 0, 1e61]) + (([0, 0, -1.0],) * (family == "poisson")):
        with pytest.raises(InvalidInputError, match="row 2, column 3"):
            model.score_samples(np.array([[1.0, 1.0, 1.0], bad]))
    with pytest.raises(ValueError, match="2 features"):
        model.score_samples(np.ones((4, 2)))


def test_noise_is_minus_one() -> None:
    rows = np.concatenate([X, [[30.0, -30.0, 30.0], [-30.0, 30.0, 30.0]]])
    model = Mixture("gaussian", 2, noise=True, random_state=0).fit(rows)
    assert [model.predict_one(x) for x in rows[-2:]] == [-1, -1]
    assert model.predict_one(X[0]) == model.predict(X[:1])[0]
    assert model.score_one(rows[-1]) == pytest.approx(model.score_samples(rows)[-1])


def test_counts_and_positive_values() -> None:
    counts = RNG.poisson(4.0, size=(200, 2)).astype(float)
    model = Mixture("poisson", 2, random_state=0).fit(counts)
    assert model.score_one(counts[3]) == pytest.approx(model.score_samples(counts)[3])
    with pytest.raises(InvalidInputError, match=r"column 2.*is -1"):
        model.score_one([2.0, -1.0])


def table(n: int) -> pd.DataFrame:
    group = RNG.integers(2, size=n)
    return pd.DataFrame(
        {
            "size": RNG.normal(5.0 * group),
            "visits": RNG.poisson(2.0 + 9.0 * group),
            "colour": np.where(RNG.random(n) < 0.2 + 0.6 * group, "red", "blue"),
        }
    )


def test_a_dict_is_a_row_of_a_table() -> None:
    frame = table(300)
    model = Mixture("auto", 2, random_state=0).fit(frame)
    row = {"size": 4.2, "visits": 10, "colour": "red"}
    one = pd.DataFrame([row])
    assert model.score_one(row) == pytest.approx(model.score_samples(one)[0])
    assert model.predict_one(row) == model.predict(one)[0]
    np.testing.assert_allclose(model.predict_proba_one(row), model.predict_proba(one)[0])
    with pytest.raises(InvalidInputError, match="colour"):
        model.score_one({**row, "colour": "green"})


def test_scores_of_a_dict_are_those_of_its_row() -> None:
    frame = table(300)
    model = Mixture("auto", 2, random_state=0).fit(frame)
    cells = frame.iloc[3].to_dict()
    assert model.score_samples(cells).tolist() == [model.score_one(cells)]
    for many in (frame.to_dict("list"), frame.to_dict("records")):
        with pytest.raises(InvalidInputError, match="DataFrame"):
            model.score_samples(many)


def test_cells_that_a_dict_lacks_are_missing() -> None:
    frame = table(300)
    model = Mixture("auto", 2, random_state=0).fit(frame)
    one = pd.DataFrame({"size": [4.2], "visits": [None], "colour": ["red"]})
    assert model.score_one({"size": 4.2, "colour": "red"}) == pytest.approx(
        model.score_samples(one)[0]
    )
    full = Mixture("gaussian", 2, random_state=0).fit(X)
    x = X[0].copy()
    x[1] = np.nan
    assert full.score_one(x) == pytest.approx(full.score_samples(np.stack([x, x]))[0])
    strict = Mixture("gaussian", 2, missing="error", random_state=0).fit(X)
    with pytest.raises(ValueError, match="NaN"):
        strict.score_one(x)


def test_a_stream_is_evaluated_as_it_is_now() -> None:
    model = Mixture("gaussian", 2, learner="online-em", random_state=0).partial_fit(X[:100])
    for x in X[100:150]:
        before = model.score_one(x)
        model.learn_one(x)
        assert model.score_one(x) != before
    again = Mixture("gaussian", 2, learner="online-em", random_state=0).partial_fit(X[:150])
    # a stream is evaluated in other compiled code, whose last digit may differ
    assert model.score_one(X[0]) == pytest.approx(again.score_one(X[0]), rel=1e-12)


def test_a_fit_after_an_evaluation() -> None:
    model = Mixture("gaussian", 2, random_state=0).fit(X)
    first = model.score_one(X[0])
    model.fit(10.0 * X)
    assert model.score_one(X[0]) == pytest.approx(model.score_samples(X)[0])
    assert model.score_one(X[0]) != first
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin.score_one(X[0]) == model.score_one(X[0])


@pytest.mark.parametrize("row", [[1.0], [1.0, 2.0, 3.0, 4.0], [1.0, np.inf, 2.0]])
def test_rows_that_are_refused(row: list[float]) -> None:
    model = Mixture("gaussian", 2, random_state=0).fit(X)
    with pytest.raises(ValueError, match=r"features|infinity"):
        model.score_one(row)


def test_a_model_that_is_not_fitted() -> None:
    with pytest.raises(ValueError, match="not fitted"):
        Mixture(Product({0: Gaussian()}), 2).score_one([1.0])


def test_a_dict_without_columns_in_a_table_with_categories() -> None:
    rows = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "yes", "no")})
    model = Mixture("auto", 2, random_state=0).fit(rows)
    assert model.score_one({}) == pytest.approx(0.0, abs=1e-12)
