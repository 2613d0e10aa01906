"""Constant and tied columns under learners of posteriors, whose variances have floors too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mixfold import Gaussian, Mixture, MomentMatching, OnlineVB, Prior
from mixfold.backends.threads import Threads
from mixfold.core.errors import DegenerateComponentsWarning
from mixfold.core.rows import Rows
from mixfold.core.variance_floors import column_limits
from mixfold.families._gaussian_params import GaussianParams
from mixfold.kernels.reference import ReferenceKernel
from mixfold.models.bayesian_mixture import BayesianMixture, MixturePosterior
from mixfold.models.mixture_model import MixtureModel, MixtureParams

RNG = np.random.default_rng(0)
CONTINUOUS = RNG.normal(size=(600, 2)) + np.repeat([[0.0, 0.0], [4.0, 1.0]], 300, axis=0)
CONSTANT = np.c_[CONTINUOUS, np.full(600, 7.0)][RNG.permutation(600)]
LEARNERS = [MomentMatching(), OnlineVB(), OnlineVB(form="streaming")]
COVARIANCES = ("full", "diag")
TOLD = pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")


def name_of(value: Any) -> str:
    return (
        value if isinstance(value, str) else f"{type(value).__name__}-{getattr(value, 'form', '')}"
    )


def variances(model: Mixture) -> np.ndarray:
    found = model.covariances_
    return found if found.ndim == 2 else np.diagonal(found, axis1=1, axis2=2)


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("learner", LEARNERS, ids=name_of)
def test_a_constant_column_has_the_variance_that_other_learners_give_it(
    learner: Any, covariance: str
) -> None:
    table = pd.DataFrame(np.tile(CONSTANT, (10, 1)), columns=["a", "b", "site"])
    with pytest.warns(DegenerateComponentsWarning, match=r"column 'site' \(2 of 2") as said:
        model = Mixture(Gaussian(covariance), 2, learner=learner, random_state=0).fit(table)
    assert len(said) == 1
    assert model.n_degenerate_ == 2
    np.testing.assert_allclose(variances(model)[:, 2], 4.9e-5, rtol=1e-6)
    rows = table.iloc[[0, 0]].copy()
    rows.iloc[1, 2] += 1e-3
    near, far = model.score_samples(rows)
    assert -10.0 < far < near < 10.0
    assert near - far < 1.0


@TOLD
@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("learner", LEARNERS, ids=name_of)
def test_a_column_that_begins_to_vary_late(learner: Any, covariance: str) -> None:
    """As in electricity prices: a constant for thousands of rows, then values around it."""
    rng = np.random.default_rng(6)
    x = np.c_[rng.normal(size=6000), np.full(6000, 0.0035)]
    x[4000:, 1] = rng.normal(0.4, 0.1, size=2000)
    model, scores = Mixture(Gaussian(covariance), 2, learner=learner, random_state=0), []
    for first in range(0, 6000, 500):
        rows = x[first : first + 500]
        if first:
            scores.append(model.score(rows))
        model.partial_fit(rows)
    assert min(scores) > -2e5  # a deviation of 0.001 gives -8.5e4
    assert scores[-1] > -3.0


@TOLD
@pytest.mark.parametrize("learner", LEARNERS, ids=name_of)
def test_components_on_a_frequent_value(learner: Any) -> None:
    rng = np.random.default_rng(5)
    x = np.where(rng.random((4000, 2)) < 0.6, 0.0, rng.normal(3.0, 1.0, size=(4000, 2)))
    model = Mixture(Gaussian("diag"), 3, learner=learner, random_state=0).fit(x)
    assert (variances(model) >= 0.9 * column_limits(x)[0]).all()  # which are of a sample there


@TOLD
@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("learner", LEARNERS, ids=name_of)
def test_rows_may_be_cut_anywhere(learner: Any, covariance: str) -> None:
    found = []
    for size in (7, 100, 600):
        model = Mixture(Gaussian(covariance), 2, learner=learner, random_state=0)
        for first in range(0, 600, size):
            model.partial_fit(CONSTANT[first : first + size])
        found.append(model)
    for model in found[1:]:
        np.testing.assert_array_equal(model.covariances_, found[0].covariances_)
        np.testing.assert_array_equal(model.means_, found[0].means_)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_kernels_agree(covariance: str) -> None:
    """Responsibilities, of which the floors are part, are those of the readable kernel."""
    family = Gaussian(covariance).with_limits(CONSTANT)
    model = MixtureModel(family, 2, 3)
    ends: list[MixtureParams] = []
    means = np.array([[0.0, 0.0, 7.0], [4.0, 1.0, 7.0]])
    start = MixtureParams(np.full(2, 0.5), family.around(means, CONSTANT, np.ones(600)))
    for learner in LEARNERS:
        ends.clear()
        for backend in (Threads(model, 1), Threads(model, 1, ReferenceKernel(model))):
            state = learner.init(backend, start)
            state, _ = learner.step(backend, state, Rows(np.tile(CONSTANT, (2, 1))))
            ends.append(learner.estimate(backend, state))
        for name in ("means", "scale"):
            one, other = (getattr(end.components, name) for end in ends)
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


@TOLD
@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("learner", LEARNERS, ids=name_of)
def test_intervals_hold_the_estimate(learner: Any, covariance: str) -> None:
    rows = np.tile(CONSTANT, (4, 1))
    model = Mixture(Gaussian(covariance), 2, learner=learner, random_state=0).fit(rows)
    low, high = model.credible_intervals()["covariances"]
    if covariance == "full":
        low, high = (np.diagonal(end, axis1=1, axis2=2) for end in (low, high))
    slack = 1.0 + 1e-9
    assert (low <= variances(model) * slack).all()
    assert (variances(model) <= high * slack).all()


def posterior_of(family: Gaussian, narrow: float) -> MixturePosterior:
    """One component that is narrow in its last column, and one that is not."""
    means = np.array([[0.0, 0.0, 7.0], [4.0, 1.0, 7.5]])
    roots = np.array([[1.0, 1.0, narrow], [1.0, 2.0, 0.5]])
    if family.covariance == "full":
        roots = roots[:, None] * np.eye(3)
        roots[:, 1, 0] = roots[:, 2, 0] = 0.3 * roots[:, 2, 2]
    mixture = BayesianMixture(MixtureModel(family, 2, 3))
    params = MixtureParams(np.full(2, 0.5), GaussianParams(means, roots))
    return mixture.prior(params, Prior(kappa=50.0, nu=60.0))


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_only_components_on_a_floor_are_changed(covariance: str) -> None:
    free, limited = Gaussian(covariance), Gaussian(covariance).with_limits(CONSTANT)
    posterior = posterior_of(free, 1e-4)
    before, after = (
        BayesianMixture(MixtureModel(f, 2, 3)).expected(posterior).components
        for f in (replace(free, floor=0.0), limited)
    )
    np.testing.assert_array_equal(after.scale[1], before.scale[1])
    np.testing.assert_array_equal(after.means, before.means)
    last = after.scale[0, 2] if covariance == "diag" else after.scale[0, 2, 2]
    np.testing.assert_allclose(np.square(last), 4.9e-5, rtol=1e-9)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_a_share_that_the_user_sets_is_respected(covariance: str) -> None:
    family = Gaussian(covariance, floor=1e-3)
    model = MixtureModel(family, 2, 3)
    params = BayesianMixture(model).expected(posterior_of(family, 1e-4))
    total = 0.5 * (0.5**2) + 0.25**2  # of the last column, whose means are 7 and 7.5
    if covariance == "full":
        total += 0.5 * (0.3 * 0.5) ** 2
    factor = params.components.scale
    last = factor[0, 2] if covariance == "diag" else factor[0, 2, 2]
    np.testing.assert_allclose(np.square(last), 1e-3 * total, rtol=1e-5)
