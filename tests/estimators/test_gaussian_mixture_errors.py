"""Errors and warnings of the drop-in are those of scikit-learn."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.mixture import GaussianMixture as Original

from drop_in import COVARIANCES, X, fitted, given
from mixfold import GaussianMixture


def outcome(cls: Any, x: Any = X, method: str = "fit", **settings: Any) -> str:
    try:
        getattr(cls(**{"n_components": 3, **settings}), method)(x)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


@pytest.mark.parametrize(
    "settings",
    [
        {"weights_init": [0.5, 0.5]},
        {"weights_init": [[0.2, 0.3, 0.5]]},
        {"weights_init": [-0.5, 0.5, 1.0]},
        {"weights_init": [0.2, 0.3, 0.4]},
        {"weights_init": [0.2, 0.3, 0.5 + 1e-6]},
        {"weights_init": ["a", "b", "c"]},
        {"weights_init": [0.5, 0.5, np.nan]},
        {"means_init": [[0.0, 0.0, 0.0]]},
        {"means_init": np.zeros((3, 2))},
        {"means_init": np.zeros((3, 3, 1))},
        {"means_init": [[np.inf] * 3] * 3},
        *(
            {"covariance_type": name, "precisions_init": given(name)["precisions_init"][:-1]}
            for name in COVARIANCES
        ),
        *(
            {"covariance_type": name, "precisions_init": -given(name)["precisions_init"]}
            for name in COVARIANCES
        ),
        {"covariance_type": "tied", "precisions_init": np.triu(np.ones((3, 3)))},
        {"n_components": 0},
        {"n_components": 2.5},
        {"n_components": "two"},
        {"n_components": 500},
        {"covariance_type": "round"},
        {"tol": -1.0},
        {"reg_covar": -1.0},
        {"max_iter": -1},
        {"n_init": 0},
        {"init_params": "magic"},
        {"random_state": "seed"},
        {"warm_start": "yes"},
        {"verbose": -1},
        {"verbose_interval": 0},
    ],
    ids=repr,
)
def test_error_messages(settings: dict[str, Any]) -> None:
    def sorted_options(text: str) -> str:  # scikit-learn prints a set, in random order
        return re.sub(r"\{.*\}", lambda m: str(sorted(re.findall(r"'.*?'", m[0]))), text)

    ours, theirs = outcome(GaussianMixture, **settings), outcome(Original, **settings)
    assert theirs != "no error"
    assert sorted_options(ours) == sorted_options(theirs)


@pytest.mark.parametrize(
    "x",
    [
        X[:1],
        X[:2],
        X[0],
        X[None],
        np.empty((0, 3)),
        X + 1j,
    ],
    ids=["1 row", "2 rows", "1d", "3d", "empty", "complex"],
)
def test_data_error_messages(x: Any) -> None:
    for method in ("fit", "fit_predict"):
        theirs = outcome(Original, x, method)
        assert theirs != "no error"
        assert outcome(GaussianMixture, x, method) == theirs


@pytest.mark.parametrize(
    ("x", "place"),
    [
        (np.full((9, 3), np.nan), "row 1, column 1 (both counted from 1) is NaN"),
        (np.full((9, 3), np.inf), "row 1, column 1 (both counted from 1) is infinity"),
        ([["a", "b"], ["c", "d"]], "column 1 (counted from 1) has 'a', which is not a number"),
    ],
    ids=["nan", "inf", "words"],
)
def test_values_that_are_no_numbers_are_named_where_scikit_learn_only_counts_them(
    x: Any, place: str
) -> None:
    for method in ("fit", "fit_predict"):
        assert outcome(Original, x, method).startswith("ValueError")
        assert place in outcome(GaussianMixture, x, method)


def test_before_fitting() -> None:
    for method in ("predict", "predict_proba", "score", "score_samples", "bic", "aic"):
        ours, theirs = outcome(GaussianMixture, X, method), outcome(Original, X, method)
        assert ours == theirs
        assert ours.startswith("NotFittedError")
    with pytest.raises(NotFittedError):
        GaussianMixture().sample()


def test_convergence_warnings() -> None:
    for cls in (GaussianMixture, Original):
        with pytest.warns(ConvergenceWarning) as caught:
            cls(3, max_iter=1, random_state=0).fit(X)
        with pytest.warns(ConvergenceWarning) as also:
            cls(3, max_iter=1, random_state=0).fit_predict(X)
        texts = {str(w.message) for w in (*caught, *also)}
        assert texts == {
            "Best performing initialization did not converge. Try different init parameters, or "
            "increase max_iter, tol, or check for degenerate data."
        }
        if cls is GaussianMixture:
            assert {w.filename for w in caught} == {__file__}


def test_where_scikit_learn_raises() -> None:
    singular = np.c_[X, X[:, 0] * 2.0]
    for covariance in ("full", "tied"):
        settings: dict[str, Any] = {"covariance_type": covariance, "reg_covar": 0.0}
        with pytest.raises(ValueError, match="ill-defined empirical covariance"):
            Original(3, random_state=0, **settings).fit(singular)
        ours = fitted(GaussianMixture, singular, **settings)
        assert np.isfinite(ours.score_samples(singular)).all()
        assert ours.n_degenerate_ > 0
    ones = np.ones((10, 2))
    for covariance in COVARIANCES:
        ours = fitted(
            GaussianMixture, ones, n_components=1, covariance_type=covariance, reg_covar=0.0
        )
        assert np.isfinite(ours.score_samples(ones)).all()
