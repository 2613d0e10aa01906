"""Priors weigh what they say, and reg_covar is added to variances, whatever learns them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mixfold import Gaussian, Mixture, MomentMatching, OnlineVB, Prior

FAR = Prior(means=[100.0], kappa=1e-3)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("learner", [MomentMatching(prior=FAR), OnlineVB(prior=FAR)], ids=repr)
def test_a_prior_of_a_thousandth_of_a_row(learner: Any, method: str) -> None:
    x = np.random.default_rng(0).normal(size=(272, 1))
    model = getattr(Mixture("gaussian", 1, learner=learner), method)(x)
    exact = (1e-3 * 100.0 + x.sum()) / (1e-3 + 272)
    assert exact == pytest.approx(0.002, abs=1e-4)
    assert float(model.means_[0, 0]) == pytest.approx(exact, abs=1e-3)
    assert float(model.posterior_.components.kappa[0]) == pytest.approx(272.001)


def test_batches_of_any_size_have_one_posterior() -> None:
    """Of one component: the exact one, since steps 1/n weigh all batches alike."""
    from mixfold.schedules.power import Power

    x = np.random.default_rng(1).normal(3.0, 2.0, size=(300, 2))
    prior = Prior(means=[0.0, 0.0], kappa=5.0, covariance=np.eye(2))
    schedule = Power(exponent=1.0, scale=1.0)
    for size in (300, 70, 7):
        learner = OnlineVB(prior=prior, batch_size=size, schedule=schedule)
        model = Mixture("gaussian", 1, learner=learner).fit(x)
        np.testing.assert_allclose(model.means_[0], x.sum(axis=0) / 305.0, rtol=1e-12)
        assert model.posterior_.alpha == pytest.approx(301.0)


@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize(
    "learner", ["moment-matching", OnlineVB(), OnlineVB(form="streaming")], ids=repr
)
def test_reg_covar_is_added(learner: Any, covariance: str) -> None:
    x = np.random.default_rng(2).normal(size=(2000, 2)) * [0.01, 1.0]
    found = {}
    for reg_covar in (0.0, 0.5):
        family = Gaussian(covariance, reg_covar=reg_covar)
        found[reg_covar] = Mixture(family, 1, learner=learner, random_state=0).fit(x)
    added = found[0.5].covariances_[0] - found[0.0].covariances_[0]
    expected = 0.5 * np.eye(2) if covariance == "full" else np.full(2, 0.5)
    # the start, of which the prior is made, has been regularised too
    np.testing.assert_allclose(added, expected, atol=2e-3)
    low, high = (end[0] for end in found[0.5].credible_intervals()["covariances"])
    assert (low <= found[0.5].covariances_[0]).all()
    assert (found[0.5].covariances_[0] <= high).all()


def test_regularised_components_share_rows_as_in_em() -> None:
    """Responsibilities are those of the regularised components."""
    rng = np.random.default_rng(3)
    x = np.r_[rng.normal(-1.0, 0.1, (1500, 1)), rng.normal(1.0, 0.1, (500, 1))]
    rng.shuffle(x)
    family, ends = Gaussian("diag", reg_covar=0.2), []
    for learner in ("em", OnlineVB(max_iter=20)):
        model = Mixture(family, 2, learner=learner, init=[[-1.0], [1.0]], random_state=0).fit(x)
        ends.append(np.sort(model.means_[:, 0]))
    np.testing.assert_allclose(ends[1], ends[0], atol=0.03)
