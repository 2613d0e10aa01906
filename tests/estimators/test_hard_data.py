"""Data on which mixtures break: no error, no NaN, and components that were mended are counted."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import pytest

from mixfold import GaussianMixture, Mixture
from mixfold.families.gaussian import Gaussian
from mixfold.learners.auto import Auto
from mixfold.learners.em import EM
from mixfold.learners.mini_batch_em import MiniBatchEM
from mixfold.learners.online_vb import OnlineVB

pytestmark = pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")

RNG = np.random.default_rng(0)
BASE = RNG.normal(size=(60, 3))
BLOOD = np.c_[RNG.integers(0, 40, 60), RNG.integers(1, 20, 60)].astype(float)

GAUSSIAN: dict[str, np.ndarray] = {
    "duplicates": np.repeat(RNG.normal(size=(4, 3)), 20, axis=0),
    "one value": np.full((40, 3), 3.3),
    "zeros": np.zeros((40, 3)),
    "constant column": np.c_[BASE, np.full(60, 7.0)],
    "collinear": np.c_[BASE, BASE[:, 0] * 250.0, BASE.sum(axis=1)],
    "fewer distinct rows than components": np.repeat([[0.0, 1.0], [2.0, 3.0]], 5, axis=0),
    "one row": np.array([[1.0, 2.0, 3.0]]),
    "transfusion": np.c_[BLOOD, 250.0 * BLOOD[:, 1], BLOOD[:, 1] + RNG.integers(0, 90, 60)],
    "tiny": BASE * 1e-150,
    "small": BASE * 1e-50,
    "huge": BASE * 1e59,
    "mixed scales": BASE * [1e-59, 1.0, 1e59],
    "mixed scales of float32": BASE * [1e-18, 1.0, 1e18],
    "far from zero": BASE + 1e8,
    "clusters far apart": np.vstack([BASE[:30], BASE[30:] + 1e8]),
    "one far away": np.vstack([BASE, [[1e12, 0.0, 0.0]]]),
    "integers": RNG.integers(0, 3, size=(60, 3)),
    "big integers": RNG.integers(0, 2**62, size=(60, 2)),
    "more columns than rows": RNG.normal(size=(7, 12)),
}
MUST_BE_MENDED = [
    "duplicates",
    "one value",
    "zeros",
    "constant column",
    "collinear",
    "fewer distinct rows than components",
    "transfusion",
]
POSITIVE: dict[str, np.ndarray] = {
    "zeros": np.zeros((40, 2)),
    "a column of zeros": np.c_[RNG.poisson(3.0, 60), np.zeros(60)].astype(float),
    "one value": np.full((40, 2), 4.0),
    "one row": np.array([[1.0, 2.0]]),
    "huge": np.floor(RNG.exponential(1e15, size=(60, 2))),
    "huge and small": np.vstack([np.full((40, 2), 1e15), np.zeros((40, 2)), np.ones((9, 2))]),
    "integers": RNG.integers(0, 5, size=(60, 2)),
    "sparse": (RNG.random((60, 2)) < 0.02).astype(float),
}
EXPONENTIAL = {
    **POSITIVE,
    "tiny": RNG.exponential(1e-300, size=(60, 2)),
    "mixed scales": RNG.exponential(1.0, size=(60, 2)) * [1e-50, 1e50],
    "both ends": np.vstack([np.full((20, 2), 1e-300), np.full((20, 2), 1e59)]),
}
LEARNERS: dict[str, Any] = {
    "auto": Auto(starts=2, max_iter=20),
    "em": EM(max_iter=25),
    "accelerated em": EM(accelerate=True, max_iter=25),
    "mini-batch em": MiniBatchEM(batch_size=7, average_from=2, truncation=1000.0, max_iter=3),
    "online em": "online-em",
    "moment matching": "moment-matching",
    "online vb": OnlineVB(batch_size=16),
    "streaming vb": OnlineVB(form="streaming", batch_size=16),
}
BAYESIAN = ("moment matching", "online vb", "streaming vb")
# one of each way to compute: sums of passes, updates by rows, and the matching of moments
FLOAT32 = ("auto", "online em", "moment matching")


def narrowed(x: np.ndarray) -> np.ndarray | None:
    """The same data as float32, where that can hold them."""
    with np.errstate(over="ignore"):
        narrow = x.astype(np.float32)
    return narrow if np.isfinite(narrow).all() else None


def check(model: Any, x: np.ndarray) -> None:
    """Everything the model shows is finite."""
    shown = [model.weights_, model.means_, model.score_samples(x)]
    if hasattr(model, "covariances_"):
        shown += [model.covariances_]
    assert all(np.isfinite(part).all() for part in shown)
    assert (model.weights_ > 0).all()
    np.testing.assert_allclose(model.weights_.sum(), 1.0)
    np.testing.assert_allclose(model.predict_proba(x).sum(axis=1), 1.0, atol=1e-12)
    assert model.predict(x).max() < model.n_components


def check_all(family: Any, learner: Any, x: np.ndarray) -> list[Mixture]:
    """Fitted with 1, 3 and 6 components, and led on by more rows; some as float32 too."""
    fitted = []
    narrow = narrowed(x) if any(learner is LEARNERS[name] for name in FLOAT32) else None
    # the start by several fits of EM is that of the other learners
    init = "k-means++" if any(learner is LEARNERS[name] for name in BAYESIAN) else "auto"
    for k, rows in ((1, x), (3, x), (3, narrow), (6, x)):
        if rows is None or len(rows) < k:
            continue
        model = Mixture(family, k, learner=learner, init=init, random_state=0).fit(rows)
        fitted.append(copy(model))
        check(model, rows)
        check(model.partial_fit(rows[:5]), rows)
    return fitted


@pytest.mark.parametrize(
    ("learner", "covariance"),
    [
        (learner, covariance)
        for learner in LEARNERS
        for covariance in ("full", "tied", "diag", "spherical")
        if learner not in BAYESIAN or covariance in ("full", "diag")
    ],
)
@pytest.mark.parametrize("name", GAUSSIAN)
def test_gaussians(name: str, covariance: str, learner: str) -> None:
    models = check_all(Gaussian(covariance), LEARNERS[learner], GAUSSIAN[name])
    assert models
    collapse = name in ("one value", "zeros") or covariance in ("full", "tied")
    if name in MUST_BE_MENDED and collapse and learner in ("auto", "em", "accelerated em"):
        largest = [model for model in models if model.n_components == 6]
        # four distinct rows span a space: the prior of auto keeps components from collapsing
        wide = (name, learner, covariance) == ("duplicates", "auto", "full")
        assert all((model.n_degenerate_ > 0) is not wide for model in largest)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("family", ["poisson", "exponential", "geometric", "negative-binomial"])
def test_positive_families(family: str, learner: str) -> None:
    for name, x in (EXPONENTIAL if family == "exponential" else POSITIVE).items():
        models = check_all(family, LEARNERS[learner], x)
        assert models
        if name in ("zeros", "a column of zeros") and learner not in BAYESIAN:
            assert all(model.n_degenerate_ > 0 for model in models)


@pytest.mark.parametrize("family", ["poisson", "exponential", Gaussian()])
def test_row_by_row(family: Any) -> None:
    gaussian = isinstance(family, Gaussian)
    sets = GAUSSIAN if gaussian else POSITIVE if family == "poisson" else EXPONENTIAL
    for x in sets.values():
        model = Mixture(family, 3, learner=LEARNERS["auto"], random_state=0)
        rows = np.asarray(x[np.arange(140) % len(x)], dtype=float)
        for i, row in enumerate(rows):
            model.learn_one(row)
            if i in (0, 2, 14, 15, 16):  # learning begins with the sixteenth row
                check(model, rows)
        check(model, rows)
        assert model.n_seen_ == len(rows)


@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical"])
def test_the_drop_in_does_not_raise_either(covariance: str) -> None:
    settings: dict[str, Any] = {"reg_covar": 0.0, "max_iter": 500, "random_state": 0}
    for name, x in GAUSSIAN.items():
        if name in ("one value", "zeros", "fewer distinct rows than components"):
            continue  # on these scikit-learn's k-means warns that it found fewer clusters
        for k in (1, 3):
            if len(x) >= max(k, 2):
                model = GaussianMixture(k, covariance_type=covariance, **settings).fit(x)
                check(model, x)
                assert np.isfinite(model.precisions_cholesky_).all()


# accuracy, not only survival


@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("shift", [1e4, 1e8])
def test_covariances_far_from_zero(covariance: str, shift: float) -> None:
    """A mean of 1e8 standard deviations costs no digits but those the rows have lost."""
    rng = np.random.default_rng(1)
    away = np.round(rng.normal(size=(600, 2)) * 2**20) / 2**20
    away[300:] += [6.0, 3.0]
    away += shift
    near = away - shift  # exact: the same rows, centred
    for learner in (EM(tol=0.0, max_iter=30), EM(tol=0.0, max_iter=30, accelerate=True)):
        start = near[[0, 300]]
        centred = Mixture(Gaussian(covariance), 2, learner=learner, init=start).fit(near)
        shifted = Mixture(Gaussian(covariance), 2, learner=learner, init=start + shift).fit(away)
        np.testing.assert_allclose(shifted.covariances_, centred.covariances_, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(shifted.means_ - shift, centred.means_, atol=1e-6)
        np.testing.assert_allclose(shifted.weights_, centred.weights_, rtol=1e-6)
        np.testing.assert_allclose(shifted.score(away), centred.score(near), rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-55, 1e-30, 1e30, 1e55])
@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_units_do_not_matter(covariance: str, scale: float) -> None:
    """The same rows in other units give the same model in those units."""
    rng = np.random.default_rng(2)
    x = np.vstack([rng.normal(size=(100, 2)), rng.normal(size=(100, 2)) + 5.0])
    units = np.array([scale, 1.0])
    learner = EM(tol=0.0, max_iter=20)
    plain = Mixture(Gaussian(covariance), 2, learner=learner, init=x[[0, 100]]).fit(x)
    other = Mixture(Gaussian(covariance), 2, learner=learner, init=x[[0, 100]] * units)
    other.fit(x * units)
    np.testing.assert_allclose(other.means_ / units, plain.means_, rtol=1e-8)
    np.testing.assert_allclose(other.predict_proba(x * units), plain.predict_proba(x), atol=1e-8)


def test_clusters_far_apart_are_told_apart() -> None:
    x = GAUSSIAN["clusters far apart"]
    for learner in LEARNERS.values():
        model = Mixture(n_components=2, learner=learner, random_state=0).fit(x)
        labels = model.predict(x)
        assert len(set(labels[:30])) == len(set(labels[30:])) == 1
        assert labels[0] != labels[-1]
    # the floor is a fraction of the variance of all rows, which here is 1e15 times that of a
    # cluster
    model = Mixture(Gaussian(floor=1e-20), 2, learner="em", random_state=0).fit(x)
    low, high = model.covariances_[np.argsort(model.means_[:, 0])]
    np.testing.assert_allclose(low, np.cov(x[:30].T, ddof=0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(high, np.cov(BASE[30:].T, ddof=0), rtol=1e-5, atol=1e-6)
