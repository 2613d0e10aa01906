"""Rows of a stream are evaluated under its parameters as they are now, and learned as if not."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from mixfold import Gaussian, Mixture, OnlineEM

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3)) + 4.0 * RNG.integers(2, size=(300, 1))
FAMILIES = [
    "gaussian",
    Gaussian("tied"),
    Gaussian("diag"),
    Gaussian("spherical"),
    "poisson",
    "exponential",
]


def rows_of(family: Any) -> np.ndarray:
    """Rows inside the support."""
    return np.abs(X).round() + 1.0 if isinstance(family, str) and family != "gaussian" else X


@pytest.mark.parametrize("k", [2, 9])
@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_evaluations_are_those_of_the_parameters(family: Any, k: int) -> None:
    x = rows_of(family)
    model = Mixture(family, k, learner="online-em", random_state=0).partial_fit(x[:150])
    silent = Mixture(family, k, learner="online-em", random_state=0).partial_fit(x[:150])
    for row in x[150:180]:
        model.learn_one(row)
        silent.learn_one(row)
        twin = pickle.loads(pickle.dumps(silent))
        assert model.score_one(row) == pytest.approx(twin.score_one(row), rel=1e-11)
        responsibilities = model.predict_proba_one(row)
        np.testing.assert_allclose(responsibilities, twin.predict_proba_one(row), atol=1e-11)
        assert model.predict_one(row) == responsibilities.argmax()
    assert model.weights_.tolist() == silent.weights_.tolist()
    assert model.score(x) == silent.score(x)


def test_missing_cells_of_a_stream() -> None:
    model = Mixture("gaussian", 2, learner="online-em", random_state=0).partial_fit(X[:150])
    for row in X[150:155]:
        model.learn_one(row)
        hole = row.copy()
        hole[1] = np.nan
        assert model.score_one(hole) == pytest.approx(model.score_samples(hole[None])[0], rel=1e-11)
        assert np.isfinite(model.score_one(row))


def test_a_mean_of_parameters_is_evaluated() -> None:
    learner = OnlineEM(average_from=10)
    model = Mixture("gaussian", 2, learner=learner, random_state=0).partial_fit(X[:150])
    for row in X[150:160]:
        model.learn_one(row)
        again = pickle.loads(pickle.dumps(model))
        assert model.score_one(row) == pytest.approx(again.score_one(row), rel=1e-11)


def test_a_wrong_row_of_a_stream() -> None:
    model = Mixture("gaussian", 2, learner="online-em", random_state=0).partial_fit(X[:150])
    model.learn_one(X[150])
    before = model.score_one(X[0])
    for wrong in ([1.0], [1.0, np.inf, 2.0]):
        with pytest.raises(ValueError, match=r"features|infinity"):
            model.score_one(wrong)
    assert model.score_one(X[0]) == before


def test_calls_of_partial_fit_do_not_make_a_model_grow() -> None:
    model = Mixture("gaussian", 2, learner="online-em", random_state=0).partial_fit(X[:100])
    sizes = []
    for i in range(6000):
        model.partial_fit(X[i % 300][None])
        if i in (1999, 5999):
            sizes.append(len(pickle.dumps(model)))
    assert sizes[1] < sizes[0] + 12_000
    history = model.history_
    assert 100 < len(history) <= 512
    assert history.rows[0] == 100
    assert history.rows[-1] == 6100
    assert (np.diff(history.rows) > 0).all()
