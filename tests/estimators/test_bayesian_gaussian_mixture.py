"""The drop-in agrees with scikit-learn's BayesianGaussianMixture, and passes its tests."""

from __future__ import annotations

import inspect
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture as Original
from sklearn.mixture.tests import test_bayesian_mixture as originals

import mixfold
from drop_in import COVARIANCES, RNG, X, fitted
from mixfold import BayesianGaussianMixture, datasets

NEW = RNG.normal(size=(40, 3)) * 3.0
PRIORS = ["dirichlet_process", "dirichlet_distribution"]
ARRAYS = ["weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_"]
ARRAYS += ["mean_precision_", "degrees_of_freedom_", "mean_prior_", "covariance_prior_"]
NUMBERS = ["weight_concentration_prior_", "mean_precision_prior_", "degrees_of_freedom_prior_"]
# tests of private functions, and one that calls private methods
OTHERS = {"test_log_dirichlet_norm", "test_log_wishart_norm", "test_compare_covar_type"}


def assert_same(ours: Any, theirs: Any, rtol: float = 1e-8, new: Any = NEW) -> None:
    for name in (*ARRAYS, *NUMBERS):
        mine, other = getattr(ours, name), getattr(theirs, name)
        assert np.shape(mine) == np.shape(other), name
        np.testing.assert_allclose(mine, other, rtol=rtol, atol=rtol, err_msg=name)
    np.testing.assert_allclose(
        np.array(ours.weight_concentration_), np.array(theirs.weight_concentration_), rtol=rtol
    )
    assert type(ours.weight_concentration_) is type(theirs.weight_concentration_)
    assert (ours.n_iter_, ours.converged_) == (theirs.n_iter_, theirs.converged_)
    # with a tied covariance scikit-learn's bounds are arrays of one number
    np.testing.assert_allclose(ours.lower_bounds_, np.ravel(theirs.lower_bounds_), rtol=rtol)
    assert ours.lower_bound_ == pytest.approx(np.ravel(theirs.lower_bound_)[0], rel=rtol)
    np.testing.assert_array_equal(ours.predict(new), theirs.predict(new))
    for method in ("predict_proba", "score_samples"):
        mine, other = getattr(ours, method)(new), getattr(theirs, method)(new)
        np.testing.assert_allclose(mine, other, rtol=rtol, atol=rtol)
    assert ours.score(new) == pytest.approx(theirs.score(new), rel=rtol)


def test_the_signature() -> None:
    theirs = inspect.signature(Original.__init__).parameters
    ours = inspect.signature(BayesianGaussianMixture.__init__).parameters
    assert list(ours)[: len(theirs)] == list(theirs)
    for name, parameter in theirs.items():
        assert (ours[name].default, ours[name].kind) == (parameter.default, parameter.kind), name


def test_the_attributes() -> None:
    ours, theirs = fitted(BayesianGaussianMixture), fitted(Original)
    public = {name for name in (*vars(theirs), *dir(theirs)) if not name.startswith("_")}
    assert public <= {name for name in dir(ours) if not name.startswith("_")}


TABLES = {"faithful": datasets.load_faithful, "iris": load_iris, "wine": load_wine, "groups": X}


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("table", [*TABLES])
def test_fits(table: str, covariance: str, prior: str) -> None:
    found: Any = TABLES[table]
    found = found() if callable(found) else found
    x = np.asarray(getattr(found, "data", found) if table in ("iris", "wine") else found)
    for seed, init in enumerate(["kmeans", "k-means++", "random", "random_from_data"]):
        settings = {"covariance_type": covariance, "init_params": init, "random_state": seed}
        settings |= {"weight_concentration_prior_type": prior, "n_components": 5}
        assert_same(
            fitted(BayesianGaussianMixture, x, **settings),
            fitted(Original, x, **settings),
            new=x,
        )


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize(
    "settings",
    [
        {"n_init": 3, "init_params": "random_from_data"},
        {"reg_covar": 0.5},
        {"tol": 1e-8, "max_iter": 50},
        {"max_iter": 1},
        {"max_iter": 0},
        {"n_components": 1},
        {"weight_concentration_prior": 100.0, "mean_precision_prior": 0.1},
        {"mean_prior": [1.0, 0.0, 2.0], "degrees_of_freedom_prior": 5.5},
    ],
    ids=repr,
)
def test_settings(covariance: str, prior: str, settings: dict[str, Any]) -> None:
    settings = {"covariance_type": covariance, **settings}
    settings |= {"weight_concentration_prior_type": prior}
    ours, theirs = (fitted(cls, **settings) for cls in (BayesianGaussianMixture, Original))
    assert_same(ours, theirs)


@pytest.mark.parametrize(
    ("covariance", "given"),
    [
        ("full", np.eye(3) + 0.2),
        ("tied", np.eye(3) + 0.2),
        ("diag", [1.0, 2.0, 3.0]),
        ("spherical", 2.0),
    ],
)
def test_priors_of_covariances(covariance: str, given: Any) -> None:
    settings = {"covariance_type": covariance, "covariance_prior": given}
    ours, theirs = (fitted(cls, **settings) for cls in (BayesianGaussianMixture, Original))
    assert_same(ours, theirs)


@pytest.mark.parametrize(
    ("settings", "exact"),
    [
        ({"mean_prior": [1.0]}, True),
        ({"degrees_of_freedom_prior": 2.0}, True),
        ({"covariance_prior": np.ones((2, 2))}, True),
        ({"covariance_prior": -np.eye(3)}, True),
        ({"covariance_prior": [-1.0, 1.0, 1.0], "covariance_type": "diag"}, True),
        ({"n_components": 1000}, True),
        ({"weight_concentration_prior": -1.0}, False),
        ({"weight_concentration_prior_type": "none"}, False),
        ({"covariance_type": "none"}, False),
    ],
    ids=repr,
)
def test_errors(settings: dict[str, Any], exact: bool) -> None:
    texts = []
    for cls in (BayesianGaussianMixture, Original):
        with pytest.raises(ValueError) as caught:
            fitted(cls, **settings)
        texts.append(str(caught.value).replace("'covariance_prior'", "'full covariance_prior'"))
    if exact:
        assert texts[0] == texts[1]


def test_warm_start() -> None:
    for prior in PRIORS:
        settings: dict[str, Any] = {"weight_concentration_prior_type": prior, "max_iter": 2}
        settings |= {"warm_start": True, "n_init": 2, "n_components": 3, "random_state": 0}
        ours, theirs = BayesianGaussianMixture(**settings), Original(**settings)
        for rows in (X, X, X, X[:150]):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                ours.fit(rows)
                theirs.fit(rows)
            assert_same(ours, theirs)


def test_verbose_output(capsys: pytest.CaptureFixture[str]) -> None:
    def told(cls: Any, **settings: Any) -> list[str]:
        fitted(cls, verbose=2, verbose_interval=2, **settings)
        text = re.sub(r"time lapse [0-9.]+s", "time lapse", capsys.readouterr().out)
        return re.sub(r"-?0\.00000|inf", "0", text).splitlines()

    chosen: list[dict[str, Any]] = [{"n_init": 2, "max_iter": 5}, {"max_iter": 200}]
    for settings in chosen:
        assert told(BayesianGaussianMixture, **settings) == told(Original, **settings)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_sampling(covariance: str) -> None:
    classes = BayesianGaussianMixture, Original
    ours, theirs = (fitted(cls, covariance_type=covariance) for cls in classes)
    for mine, other in zip(ours.sample(300), theirs.sample(300), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-8, atol=1e-8)


def test_weights_stand_for_repeated_rows() -> None:
    counts = np.random.default_rng(3).integers(1, 4, size=len(X))
    for covariance in COVARIANCES:
        settings: dict[str, Any] = {"covariance_type": covariance, "max_iter": 300, "tol": 1e-6}
        model = BayesianGaussianMixture(n_components=3, random_state=0, **settings)
        model.fit(X, sample_weight=counts)
        repeated = fitted(Original, np.repeat(X, counts, axis=0), **settings)
        order = [model.predict([row])[0] for row in repeated.means_]
        np.testing.assert_allclose(model.mean_prior_, repeated.mean_prior_)
        np.testing.assert_allclose(model.covariance_prior_, repeated.covariance_prior_)
        np.testing.assert_allclose(model.means_[order], repeated.means_, atol=0.1)


def test_threads_and_files_give_the_same_fit(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(1.0, 2.0, size=(30_000, 2))
    one, two = (fitted(BayesianGaussianMixture, x, n_threads=n, max_iter=5) for n in (1, 2))
    np.testing.assert_array_equal(one.means_, two.means_)
    one.save(tmp_path / "model.mixfold")
    again = mixfold.load(tmp_path / "model.mixfold")
    np.testing.assert_array_equal(one.score_samples(x[:9]), again.score_samples(x[:9]))
    np.testing.assert_array_equal(one.weight_concentration_, again.weight_concentration_)
    np.save(tmp_path / "rows.npy", x)
    there = fitted(BayesianGaussianMixture, str(tmp_path / "rows.npy"), max_iter=5)
    np.testing.assert_allclose(there.mean_prior_, one.mean_prior_)
    np.testing.assert_allclose(there.covariance_prior_, one.covariance_prior_)


def test_streams_are_refused() -> None:
    model = BayesianGaussianMixture(n_components=2)
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match="OnlineVB"):
        _ = model.learn_one
    with pytest.raises(ValueError, match="read only once"):
        model.fit(iter([X, X]))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "name", [name for name in dir(originals) if name.startswith("test_") and name not in OTHERS]
)
def test_scikit_learns_own_test(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(originals, "BayesianGaussianMixture", BayesianGaussianMixture)
    test = getattr(originals, name)
    marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    cases = marks[0].args[1] if marks else [()]
    for case in cases:
        test(*case)
