"""Parameters of families and learners, set through the estimator; what fitted models show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.mixture import GaussianMixture as Original
from sklearn.model_selection import GridSearchCV

from mixfold import (
    EM,
    DriftAware,
    Gaussian,
    GaussianMixture,
    KMeans,
    LinearMixedModel,
    Mixture,
    OnlineEM,
    Power,
    datasets,
)
from mixfold.core.value import equal
from mixfold.errors import InvalidInputError

X = datasets.load_faithful()


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("learner", ["online-em", OnlineEM()])
@pytest.mark.parametrize("family", ["gaussian", Gaussian()])
def test_parameters_of_parts_are_listed_and_set(family: Any, learner: Any) -> None:
    model = Mixture(family, 2, learner=learner)
    listed = model.get_params(deep=True)
    assert listed["family__covariance"] == "full"
    assert listed["learner__batch_size"] == 1
    assert listed["learner__schedule__exponent"] == 0.6
    assert not any("__" in name for name in model.get_params(deep=False))
    changed = {
        "family__covariance": "diag",
        "learner__batch_size": 100,
        "learner__schedule__exponent": 0.7,
        "n_components": 3,
    }
    assert model.set_params(**changed) is model
    assert equal(model.family, Gaussian("diag"))
    assert equal(model.learner, OnlineEM(batch_size=100, schedule=Power(0.7)))
    assert model.n_components == 3
    assert same(clone(model).get_params(), model.get_params())


def test_setting_what_is_listed_changes_nothing() -> None:
    for model in (
        Mixture(learner=DriftAware()),
        Mixture(init=KMeans()),
        GaussianMixture(),
        LinearMixedModel(),
    ):
        listed = model.get_params()
        assert same(model.set_params(**listed).get_params(), listed)


def test_parts_given_in_the_same_call_are_those_that_change() -> None:
    model = Mixture().set_params(learner__tol=1e-3, learner="em", init__max_iter=7, init="kmeans")
    assert equal(model.learner, EM(tol=1e-3))
    assert equal(model.init, KMeans(max_iter=7))
    model.set_params(family__covariance="factor", family__rank=1)
    assert type(model.family) is type(Gaussian("factor", rank=1))
    model.set_params(family__covariance="full", family__rank=None)
    assert type(model.family) is Gaussian
    deep = Mixture(learner=DriftAware(OnlineEM())).set_params(learner__learner__batch_size=9)
    assert deep.get_params()["learner__learner__batch_size"] == 9


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"learner__size": 3}, "unknown parameter of OnlineEM, 'size'.*batch_size"),
        ({"size": 3}, "unknown parameter of Mixture, 'size'.*n_components"),
        ({"learner__batch_size": 0}, "batch_size is 0"),
        ({"n_components__size": 3}, "n_components=1 has no parameters"),
        ({"init__max_iter": 3}, "init='auto' has no parameters"),
        ({"learner__schedule__size": 3}, "unknown parameter of Power, 'size'"),
    ],
)
def test_wrong_names_and_values_change_nothing(wrong: dict[str, Any], message: str) -> None:
    model = Mixture(learner="online-em")
    before = model.get_params()
    with pytest.raises(InvalidInputError, match=message):
        model.set_params(n_init=5, family__covariance="diag", **wrong)
    assert same(model.get_params(), before)
    assert model.learner == "online-em"


def test_estimators_with_a_tol_of_their_own_have_no_other() -> None:
    assert not any(name.startswith("learner__") for name in GaussianMixture().get_params())
    with pytest.raises(InvalidInputError, match="learner='em' has no parameters of its own"):
        GaussianMixture().set_params(learner__tol=1e-9)
    model = GaussianMixture(learner=EM()).set_params(learner__tol=1e-9)
    assert equal(model.learner, EM(tol=1e-9))


def test_grid_search_tunes_families_and_learners() -> None:
    grid = {
        "n_components": [1, 2],
        "family__covariance": ["spherical", "full"],
        "learner__tol": [1e-2, 1e-5],
    }
    search = GridSearchCV(Mixture(learner="em", random_state=0), grid, cv=3).fit(X)
    assert search.best_params_["n_components"] == 2
    assert search.best_params_["family__covariance"] == "full"
    assert search.best_estimator_.learner.tol == search.best_params_["learner__tol"]
    scores = search.cv_results_["mean_test_score"]
    for i, chosen in enumerate(search.cv_results_["params"]):
        plain = Mixture(
            Gaussian(chosen["family__covariance"]),
            chosen["n_components"],
            learner=EM(tol=chosen["learner__tol"]),
            random_state=0,
        )
        alone = GridSearchCV(plain, {"n_init": [1]}, cv=3).fit(X)
        assert alone.best_score_ == scores[i]


# what fitted models show


@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical"])
def test_attributes_are_scikit_learns(covariance: str) -> None:
    theirs = Original(
        2, covariance_type=covariance, tol=1e-12, max_iter=2000, reg_covar=0.0, random_state=0
    ).fit(X)
    learner = EM(tol=1e-13, max_iter=2000)
    ours = Mixture(Gaussian(covariance), 2, learner=learner, init=theirs.means_).fit(X)
    assert ours.converged_
    assert ours.n_iter_ == len(ours.history_)
    assert ours.lower_bound_ == pytest.approx(theirs.lower_bound_, abs=1e-9)
    assert ours.lower_bound_ <= ours.score(X) + 1e-12
    for name in ("covariances_", "precisions_", "precisions_cholesky_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-4)


def test_attributes_follow_what_is_learned() -> None:
    model = Mixture(n_components=2, learner="em", random_state=0).fit(X)
    passes, before = model.n_iter_, model.precisions_
    model.partial_fit(X[:50])
    assert model.n_iter_ == passes  # of fit
    assert (model.precisions_ != before).any()
    assert np.allclose(model.precisions_ @ model.covariances_, np.eye(2))
    model.learn_one(X[0])
    assert np.allclose(model.precisions_ @ model.covariances_, np.eye(2))
    assert not hasattr(model, "lower_bound_")
    assert Mixture(n_components=2, random_state=0).partial_fit(X).n_iter_ == 0


@pytest.mark.parametrize(
    ("family", "learner", "name", "reason"),
    [
        ("poisson", "em", "precisions_", "the poisson family has none"),
        ("poisson", "em", "loadings_", "rank=..."),
        (Gaussian("factor", rank=1), "em", "precisions_cholesky_", "loadings_"),
        ("gaussian", "online-em", "lower_bound_", "online-em .* use score"),
        ("gaussian", "em", "posterior_", "online-vb"),
        ("gaussian", "em", "drifts_", "DriftAware"),
    ],
)
@pytest.mark.filterwarnings("ignore::mixfold.errors.DegenerateComponentsWarning")
def test_attributes_that_are_not_there_say_why(
    family: Any, learner: str, name: str, reason: str
) -> None:
    model = Mixture(family, 2, learner=learner, random_state=0)
    with pytest.raises(AttributeError, match=f"no attribute '{name}': call fit first"):
        getattr(model, name)
    model.fit(np.round(X))
    with pytest.raises(AttributeError, match=f"no attribute '{name}': .*{reason}"):
        getattr(model, name)
