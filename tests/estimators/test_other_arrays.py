"""Arrays of other libraries as rows: the array API standard, tensors."""

from __future__ import annotations

from typing import Any

import array_api_strict as xp
import numpy as np
import pytest
import torch

from mixfold import AnomalyDetector, BayesianGaussianMixture, GaussianMixture, Mixture
from mixfold.core.arrays import as_array, is_foreign
from mixfold.core.value import equal

X = np.concatenate([np.random.default_rng(0).normal(size=(200, 2)) + shift for shift in (0, 6)])
ESTIMATORS = [
    Mixture(n_components=2, random_state=0),
    Mixture(n_components=2, random_state=0, learner="online-em"),
    GaussianMixture(2, random_state=0),
    BayesianGaussianMixture(n_components=2, random_state=0),
]
METHODS = ["predict", "predict_proba", "score_samples"]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
@pytest.mark.parametrize("make", [xp.asarray, torch.tensor], ids=["array API", "torch"])
def test_results_are_arrays_of_the_same_library(estimator: Any, make: Any) -> None:
    rows = make(X)
    expected = estimator.fit(X)
    params = expected.params_
    found = estimator.fit(rows)
    assert equal(found.params_, params)
    for method in METHODS:
        result = getattr(found, method)(rows)
        assert type(result) is type(rows)
        assert result.device == rows.device
        np.testing.assert_array_equal(as_array(result), getattr(found, method)(X))
    for method in ("score", "bic", "aic"):
        assert getattr(found, method)(rows) == getattr(found, method)(X)
    assert type(found.fit_predict(rows)) is type(rows)


@pytest.mark.parametrize("dtype", [xp.float32, xp.int64, xp.uint8])
def test_dtypes(dtype: Any) -> None:
    x = np.abs(np.rint(X)) + 1.0
    rows = xp.astype(xp.asarray(x), dtype)
    model = Mixture("poisson", 2, random_state=0).fit(rows)
    expected = Mixture("poisson", 2, random_state=0).fit(x)
    np.testing.assert_allclose(model.means_, expected.means_, rtol=1e-5)
    assert model.predict(rows).dtype == xp.int64


def test_weights_streams_and_rows_filled_in() -> None:
    weight = np.arange(1.0, len(X) + 1.0)
    model = Mixture(random_state=0).fit(xp.asarray(X), sample_weight=xp.asarray(weight))
    np.testing.assert_allclose(model.means_[0], np.average(X, axis=0, weights=weight))
    gaps = X.copy()
    gaps[3, 1] = np.nan
    filled = model.impute(xp.asarray(gaps))
    np.testing.assert_array_equal(np.from_dlpack(filled), model.impute(gaps))
    explained = model.explain(torch.tensor(X))
    np.testing.assert_array_equal(explained, model.explain(X))


def test_learning_more_rows() -> None:
    model = Mixture(n_components=2, random_state=0, learner="online-em")
    for part in (X[::2], X[1::2]):
        model.partial_fit(xp.asarray(part))
    other = Mixture(n_components=2, random_state=0, learner="online-em")
    for part in (X[::2], X[1::2]):
        other.partial_fit(part)
    assert equal(model.params_, other.params_)


def test_anomalies() -> None:
    detector = AnomalyDetector(Mixture(n_components=2, random_state=0), contamination=0.01).fit(X)
    found = detector.predict(torch.tensor(X))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_array_equal(found, detector.predict(X))


def test_errors_are_those_of_arrays() -> None:
    x = X.copy()
    x[5, 1] = np.inf
    for rows in (xp.asarray(x), torch.tensor(x)):
        with pytest.raises(ValueError, match=r"row 6, column 2.* is infinity"):
            Mixture().fit(rows)


def test_what_is_no_array_of_another_library() -> None:
    assert is_foreign(xp.asarray(X))
    for thing in (X, X[0, 0], torch.tensor(X), [1.0], "x.csv", None):
        assert not is_foreign(thing)
