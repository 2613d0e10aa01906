"""The drop-in agrees with scikit-learn's GaussianMixture."""

from __future__ import annotations

import inspect
import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture as Original
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from drop_in import COVARIANCES, RNG, X, fitted, given
from mixfold import GaussianMixture

NEW = RNG.normal(size=(40, 3)) * 3.0
ARRAYS = ["weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_"]


def assert_same(ours: Any, theirs: Any, rtol: float = 1e-6, x: Any = X, new: Any = NEW) -> None:
    # where a start gives each component one row, scikit-learn begins with weights that sum to K/n
    short = ours.init_params in ("k-means++", "random_from_data") and ours.weights_init is None
    if ours.max_iter == 0 and short:
        theirs.weights_ = theirs.weights_ / theirs.weights_.sum()
    for name in ARRAYS:
        mine, other = getattr(ours, name), getattr(theirs, name)
        assert mine.shape == other.shape, name
        np.testing.assert_allclose(mine, other, rtol=rtol, atol=rtol, err_msg=name)
    assert (ours.n_iter_, ours.converged_) == (theirs.n_iter_, theirs.converged_)
    assert len(ours.lower_bounds_) == len(theirs.lower_bounds_)
    first = 1 if short else 0
    mine, other = ours.lower_bounds_[first:], theirs.lower_bounds_[first:]
    np.testing.assert_allclose(mine, other, rtol=rtol)
    if mine:
        assert ours.lower_bound_ == pytest.approx(theirs.lower_bound_, rel=rtol)
    elif ours.n_iter_ == 0:
        assert ours.lower_bound_ == theirs.lower_bound_ == -np.inf
    assert isinstance(ours.lower_bounds_, list)
    assert isinstance(ours.converged_, bool)
    np.testing.assert_array_equal(ours.predict(new), theirs.predict(new))
    assert ours.predict(new).dtype == theirs.predict(new).dtype
    for method in ("predict_proba", "score_samples"):
        mine, other = getattr(ours, method)(new), getattr(theirs, method)(new)
        np.testing.assert_allclose(mine, other, rtol=rtol * 100, atol=rtol * 100)
    for method in ("score", "bic", "aic"):
        mine, other = getattr(ours, method)(x), getattr(theirs, method)(x)
        np.testing.assert_allclose(mine, other, rtol=rtol)


def test_the_signature() -> None:
    theirs = inspect.signature(Original.__init__).parameters
    ours = inspect.signature(GaussianMixture.__init__).parameters
    assert list(ours)[: len(theirs)] == list(theirs)
    for name, parameter in theirs.items():
        assert ours[name].default == parameter.default, name
        assert ours[name].kind == parameter.kind, name
    for method in ("fit", "fit_predict", "predict", "predict_proba", "score_samples", "score"):
        accepted = inspect.signature(getattr(GaussianMixture, method)).parameters
        assert set(inspect.signature(getattr(Original, method)).parameters) <= set(accepted)


def test_the_attributes() -> None:
    ours, theirs = fitted(GaussianMixture), fitted(Original)
    shown = {name for name in vars(theirs) if name.endswith("_") and not name.startswith("_")}
    assert shown <= {name for name in vars(ours) if name.endswith("_")}
    public = {name for name in dir(theirs) if not name.startswith("_")}
    assert public <= {name for name in dir(ours) if not name.startswith("_")}


@pytest.mark.parametrize("init", ["kmeans", "k-means++", "random", "random_from_data"])
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_fits(covariance: str, init: str) -> None:
    for seed in (0, 1):
        settings = {"covariance_type": covariance, "init_params": init, "random_state": seed}
        assert_same(fitted(GaussianMixture, **settings), fitted(Original, **settings))


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize(
    "settings",
    [
        {"n_init": 4, "init_params": "random_from_data"},
        {"n_init": 3, "init_params": "k-means++", "max_iter": 3},
        {"reg_covar": 0.0},
        {"reg_covar": 0.5},
        {"tol": 1e-8, "max_iter": 300},
        {"tol": 0.0, "max_iter": 7},
        {"max_iter": 1},
        {"max_iter": 0},
        {"max_iter": 0, "n_init": 3},
        {"n_components": 1},
        {"n_components": 5},
    ],
    ids=repr,
)
def test_settings(covariance: str, settings: dict[str, Any]) -> None:
    settings = {"covariance_type": covariance, **settings}
    rtol = 1e-4 if settings.get("tol") == 1e-8 else 1e-6
    assert_same(fitted(GaussianMixture, **settings), fitted(Original, **settings), rtol)


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("which", range(8))
def test_starts_given_in_part(covariance: str, which: int) -> None:
    parts = given(covariance)
    chosen = {name: part for i, (name, part) in enumerate(parts.items()) if which >> i & 1}
    for max_iter in (0, 2, 100):
        settings = {"covariance_type": covariance, "max_iter": max_iter, **chosen}
        ours = fitted(GaussianMixture, **settings)
        if max_iter == 0 and "precisions_init" in chosen:  # where scikit-learn's fit breaks
            np.testing.assert_allclose(ours.precisions_, parts["precisions_init"])
        else:
            assert_same(ours, fitted(Original, **settings))


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_warm_start(covariance: str) -> None:
    settings: dict[str, Any] = {"covariance_type": covariance, "warm_start": True}
    settings |= {"max_iter": 2, "tol": 1e-6}
    ours = GaussianMixture(3, random_state=0, **settings)
    theirs = Original(3, random_state=0, **settings)
    for _ in range(6):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            ours.fit(X)
            theirs.fit(X)
        assert_same(ours, theirs, rtol=1e-5)


def test_warm_start_with_other_rows() -> None:
    ours, theirs = (fitted(cls, warm_start=True) for cls in (GaussianMixture, Original))
    assert_same(ours.fit(X[:150]), theirs.fit(X[:150]), rtol=1e-5)


@pytest.mark.parametrize("verbose", [1, 2])
def test_verbose_output(verbose: int, capsys: pytest.CaptureFixture[str]) -> None:
    def told(cls: Any, **settings: Any) -> list[str]:
        fitted(cls, verbose=verbose, verbose_interval=2, **settings)
        text = re.sub(r"time lapse [0-9.]+s", "time lapse", capsys.readouterr().out)
        return re.sub(r"-?0\.00000|inf", "0", text).splitlines()

    chosen: list[dict[str, Any]] = [
        {"n_init": 2, "init_params": "random", "max_iter": 5},
        {"max_iter": 200, "tol": 1e-4},
        {"max_iter": 0},
    ]
    for settings in chosen:
        assert told(GaussianMixture, **settings) == told(Original, **settings)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_sampling(covariance: str) -> None:
    ours, theirs = (fitted(cls, covariance_type=covariance) for cls in (GaussianMixture, Original))
    for n in (1, 7, 400):
        for mine, other in zip(ours.sample(n), theirs.sample(n), strict=True):
            assert mine.dtype == other.dtype
            np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError) as caught:
        ours.sample(0)
    with pytest.raises(ValueError) as expected:
        theirs.sample(0)
    assert str(caught.value) == str(expected.value)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_attributes_assigned_by_hand(covariance: str) -> None:
    source = fitted(Original, covariance_type=covariance)
    models = [GaussianMixture(3, covariance_type=covariance, random_state=0) for _ in range(2)]
    models[1].fit(X + 1.0)
    models += [Original(3, covariance_type=covariance, random_state=0)]
    for model in models:
        model.weights_ = source.weights_
        model.means_ = source.means_ + 0.1
        model.precisions_cholesky_ = source.precisions_cholesky_
        model.covariances_ = source.covariances_
    theirs = models.pop()
    for ours in models:
        np.testing.assert_array_equal(ours.predict(NEW), theirs.predict(NEW))
        for method in ("predict_proba", "score_samples"):
            mine, other = getattr(ours, method)(NEW), getattr(theirs, method)(NEW)
            np.testing.assert_allclose(mine, other, rtol=1e-8, atol=1e-8)
        for method in ("score", "bic", "aic"):
            assert getattr(ours, method)(NEW) == pytest.approx(getattr(theirs, method)(NEW))
        for row in NEW[:2]:
            assert ours.score_one(row) == pytest.approx(theirs.score_samples(row[None])[0])
            assert ours.predict_one(row) == theirs.predict(row[None])[0]
        np.testing.assert_allclose(ours.sample(50)[0], theirs.sample(50)[0], atol=1e-6)


def test_attributes_stay_true_row_by_row() -> None:
    for covariance in COVARIANCES:
        model = GaussianMixture(2, covariance_type=covariance, random_state=0).partial_fit(X)
        for row in X:
            model.learn_one(row)
        covariances, precisions = model.covariances_, model.precisions_
        if covariance in ("full", "tied"):
            np.testing.assert_allclose(np.linalg.inv(covariances), precisions, rtol=1e-6)
            root = model.precisions_cholesky_
            np.testing.assert_allclose(root @ root.swapaxes(-1, -2), precisions, rtol=1e-9)
        else:
            np.testing.assert_allclose(1.0 / covariances, precisions)
            np.testing.assert_allclose(np.square(model.precisions_cholesky_), precisions)


def test_feature_names() -> None:
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    ours, theirs = (fitted(cls, table) for cls in (GaussianMixture, Original))
    assert ours.feature_names_in_.tolist() == theirs.feature_names_in_.tolist()
    assert_same(ours, theirs, x=table, new=pd.DataFrame(NEW, columns=["a", "b", "c"]))
    turned = table[["b", "a", "c"]]
    with pytest.raises(ValueError) as caught:
        ours.predict(turned)
    with pytest.raises(ValueError) as expected:
        theirs.predict(turned)
    assert str(caught.value) == str(expected.value)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        ours.predict(X)


def test_kinds_of_arrays() -> None:
    theirs = fitted(Original)
    frozen = X.copy()
    frozen.setflags(write=False)
    for x in (X.tolist(), np.asfortranarray(X), frozen, X[::-1][::-1], X.astype(">f8")):
        assert_same(fitted(GaussianMixture, x), theirs)
    integers = np.round(X * 4).astype(int)
    assert_same(fitted(GaussianMixture, integers), fitted(Original, integers))
    narrow = X.astype(np.float32)
    ours = fitted(GaussianMixture, narrow, max_iter=5, tol=0.0)
    single = fitted(Original, narrow, max_iter=5, tol=0.0)
    for name in ARRAYS:
        np.testing.assert_allclose(getattr(ours, name), getattr(single, name), rtol=2e-2, atol=2e-2)


def test_random_states() -> None:
    for make in (lambda: 5, lambda: np.random.RandomState(5)):
        ours, theirs = (
            fitted(cls, random_state=make(), init_params="random_from_data", n_init=2)
            for cls in (GaussianMixture, Original)
        )
        assert_same(ours, theirs)
    assert fitted(GaussianMixture, random_state=None).converged_


def test_cloning_and_parameters() -> None:
    model = fitted(GaussianMixture, covariance_type="diag", means_init=X[:3])
    other = clone(model)
    assert not hasattr(other, "means_")
    assert other.get_params().keys() == model.get_params().keys()
    assert set(Original().get_params()) <= set(model.get_params())
    assert other.set_params(n_components=2, means_init=None).n_components == 2
    assert clone(GaussianMixture(3)).fit(X).means_.shape == (3, 3)


def test_fit_predict() -> None:
    chosen: list[dict[str, Any]] = [{}, {"max_iter": 200, "tol": 1e-7}]
    for settings in chosen:
        ours, theirs = (cls(3, random_state=0, **settings) for cls in (GaussianMixture, Original))
        labels = ours.fit_predict(X)
        np.testing.assert_array_equal(labels, theirs.fit_predict(X))
        np.testing.assert_array_equal(labels, ours.predict(X))


def test_pipelines_and_searches() -> None:
    for cls in (GaussianMixture, Original):
        pipe = make_pipeline(StandardScaler(), cls(3, random_state=0)).fit(X)
        assert pipe.predict(X).shape == (len(X),)
    shuffled = X[np.random.default_rng(0).permutation(len(X))]
    scores = [
        cross_val_score(cls(3, random_state=0), shuffled, cv=3)
        for cls in (GaussianMixture, Original)
    ]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-5)
    grid = {"n_components": [1, 2, 3], "covariance_type": ["full", "diag"]}
    ours, theirs = (
        GridSearchCV(cls(random_state=0), grid, cv=3).fit(shuffled)
        for cls in (GaussianMixture, Original)
    )
    assert ours.best_params_ == theirs.best_params_
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], rtol=1e-4
    )


def test_weights_stand_for_repeated_rows() -> None:
    counts = np.random.default_rng(3).integers(0, 4, size=len(X))
    settings: dict[str, Any] = {"means_init": X[[0, 80, 150]], "weights_init": [0.3, 0.3, 0.4]}
    for covariance in COVARIANCES:
        settings |= {"covariance_type": covariance, "max_iter": 200, "tol": 1e-6}
        settings |= {"precisions_init": given(covariance)["precisions_init"]}
        model = GaussianMixture(3, random_state=0, **settings).fit(X, sample_weight=counts)
        repeated = fitted(Original, np.repeat(X, counts, axis=0), **settings)
        np.testing.assert_allclose(model.means_, repeated.means_, rtol=1e-6)
        np.testing.assert_allclose(model.covariances_, repeated.covariances_, rtol=1e-6, atol=1e-9)
        assert model.n_iter_ == repeated.n_iter_
