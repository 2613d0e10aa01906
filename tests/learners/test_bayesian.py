"""Beliefs: against exact posteriors, closed forms and each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import mixfold
from conjugates import close, matched
from mixfold import Gaussian, Mixture, MomentMatching, OnlineVB, Power, Prior
from mixfold.backends.threads import Threads
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array, Rows
from mixfold.core.value import equal
from mixfold.families._normal_wishart import NormalWishartPosterior
from mixfold.models.bayesian_mixture import BayesianMixture, MixturePosterior
from mixfold.models.mixture_model import MixtureModel

# the exact posterior of two Gaussians in one column


def two_gaussians() -> tuple[BayesianMixture, MixturePosterior]:
    components = NormalWishartPosterior(
        np.array([[-1.0], [2.0]]),
        np.array([0.7, 1.3]),
        np.array([5.0, 6.5]),
        np.sqrt([[[2.0]], [[3.1]]]),
    )
    model = MixtureModel(Gaussian(), 2, 1)
    return BayesianMixture(model), MixturePosterior(np.array([1.5, 2.0]), components)


def moments(alpha: Array, mean: Array, kappa: Array, nu: Array, v: Array) -> dict[str, Array]:
    """First and second moments of weights, means and precisions, components on the last axis."""
    total = alpha.sum(axis=-1, keepdims=True)
    return {
        "weight": alpha / total,
        "weight squared": alpha * (alpha + 1) / (total * (total + 1)),
        "mean": mean,
        "mean squared": mean**2 + v / (kappa * (nu - 2)),
        "precision": nu / v,
        "precision squared": (nu**2 + 2 * nu) / v**2,
    }


def exact_moments(prior: MixturePosterior, x: Array) -> dict[str, Array]:
    """Moments of the exact posterior: a sum over all ways to label the rows."""
    b = prior.components
    labels = (np.arange(2 ** len(x))[:, None] >> np.arange(len(x))) & 1
    one = labels[:, None, :] == np.arange(2)[None, :, None]
    n = one.sum(axis=2)
    sums, squares = (one * x).sum(axis=2), (one * x**2).sum(axis=2)
    mean0, v0 = b.mean[:, 0], b.scale[:, 0, 0] ** 2
    alpha, kappa, nu = prior.alpha + n, b.kappa + n, b.nu + n
    mean = (b.kappa * mean0 + sums) / kappa
    v = v0 + squares + b.kappa * mean0**2 - kappa * mean**2
    log_weight = gammaln(alpha) + gammaln(nu / 2) - 0.5 * np.log(kappa) - 0.5 * nu * np.log(v)
    log_chance = log_weight.sum(axis=1)
    chance = np.exp(log_chance - logsumexp(log_chance))
    return {name: chance @ m for name, m in moments(alpha, mean, kappa, nu, v).items()}


def found_moments(posterior: MixturePosterior) -> dict[str, Array]:
    b = posterior.components
    return moments(posterior.alpha, b.mean[:, 0], b.kappa, b.nu, b.scale[:, 0, 0] ** 2)


@pytest.mark.parametrize("x", [0.4, -3.0, 5.0])
def test_one_row_has_the_moments_of_the_exact_posterior(x: float) -> None:
    mixture, prior = two_gaussians()
    backend = Threads(mixture.model, 1)
    found = found_moments(matched(backend, prior, Rows(np.array([[x]])))[0])
    for name, exact in exact_moments(prior, np.array([x])).items():
        np.testing.assert_allclose(found[name], exact, rtol=1e-10, atol=1e-10, err_msg=name)


def test_twenty_rows_stay_close_to_the_exact_posterior() -> None:
    rng = np.random.default_rng(2)
    x = np.where(rng.random(20) < 0.4, rng.normal(-2.0, 1.0, 20), rng.normal(3.0, 0.7, 20))
    mixture, prior = two_gaussians()
    found = found_moments(matched(Threads(mixture.model, 1), prior, Rows(x[:, None]))[0])
    exact = exact_moments(prior, x)
    spread = np.sqrt(exact["mean squared"] - exact["mean"] ** 2)
    assert (np.abs(found["mean"] - exact["mean"]) < 0.25 * spread).all()
    np.testing.assert_allclose(found["weight"], exact["weight"], atol=0.02)
    np.testing.assert_allclose(found["precision"], exact["precision"], rtol=0.15)
    np.testing.assert_allclose(
        np.sqrt(found["mean squared"] - found["mean"] ** 2), spread, rtol=0.15
    )


@pytest.mark.parametrize("learner", [MomentMatching(), OnlineVB(form="streaming")], ids=repr)
def test_the_error_falls_like_one_over_the_root_of_n(learner: Any) -> None:
    means = np.array([[-4.0, 0.0], [4.0, 1.0], [0.0, 6.0]])
    errors = []
    for n in (1_000, 10_000, 100_000):
        runs = []
        for seed in range(4):
            rng = np.random.default_rng([n, seed])
            x = means[rng.choice(3, size=n, p=[0.5, 0.3, 0.2])] + rng.normal(size=(n, 2))
            model = Mixture(n_components=3, learner=learner, init=means + 1.0).fit(x)
            runs.append(np.square(model.means_ - means).mean())
        errors.append(np.sqrt(np.mean(runs)))
    slope = np.polyfit(np.log([1e3, 1e4, 1e5]), np.log(errors), 1)[0]
    assert -0.65 < slope < -0.35
    assert errors[-1] < 0.02


def rows(n: int = 900) -> Array:
    rng = np.random.default_rng(0)
    return np.vstack([rng.normal(c, 1.0, size=(n // 3, 2)) for c in (-6.0, 0.0, 6.0)])[
        rng.permutation(n // 3 * 3)
    ]


@pytest.mark.parametrize("learner", ["moment-matching", "online-vb"])
def test_an_estimator_shows_its_beliefs(learner: str, tmp_path: Path) -> None:
    x = rows()
    model = Mixture(n_components=3, learner=learner, random_state=0).fit(x)
    assert isinstance(model.posterior_, MixturePosterior)
    assert equal(model.expected_parameters(), model.params_)
    low, high = model.credible_intervals(0.9)["means"]
    assert ((low < model.means_) & (model.means_ < high)).all()
    assert set(model.credible_intervals()) == {"weights", "means", "covariances"}
    wide, narrow = model.posterior_predictive(x), model.score_samples(x)
    np.testing.assert_allclose(wide.mean(), narrow.mean(), atol=0.01)
    far = np.array([[100.0, 0.0]])
    assert model.posterior_predictive(far) > model.score_samples(far)
    model.save(tmp_path / "m")
    again = mixfold.load(tmp_path / "m")
    assert equal(again.posterior_, model.posterior_)
    assert equal(again.partial_fit(x).posterior_, model.partial_fit(x).posterior_)


@pytest.mark.parametrize("learner", [MomentMatching(), OnlineVB(form="streaming", batch_size=1)])
def test_learning_goes_on_where_a_fit_has_ended(learner: Any) -> None:
    x, start = rows(), np.array([[-5.0, -5.0], [0.0, 1.0], [5.0, 5.0]])
    whole = Mixture(n_components=3, learner=learner, init=start).fit(x)
    # the start's covariance is that of the rows it is given
    given = Mixture(n_components=3, learner=learner, init=whole).fit(x)
    halves = Mixture(n_components=3, learner=learner, init=whole).fit(x[:400]).partial_fit(x[400:])
    single = Mixture(n_components=3, learner=learner, init=whole).partial_fit(x[:899])
    single.learn_one(x[899])
    assert equal(halves.posterior_, given.posterior_)
    assert equal(single.posterior_, given.posterior_)
    assert halves.n_seen_ == given.n_seen_ == 900


def test_a_posterior_is_the_next_prior() -> None:
    x = rows()
    first = Mixture(n_components=3, learner="moment-matching", random_state=0).fit(x[:300])
    after = MomentMatching(prior=first.posterior_)
    second = Mixture(n_components=3, learner=after, init=first).fit(x[300:])
    assert equal(second.posterior_, first.partial_fit(x[300:]).posterior_)


def test_stochastic_and_streaming_agree_where_they_must() -> None:
    x = rows()
    start = Mixture(n_components=3, random_state=0).fit(x)
    one_batch = {"batch_size": 900, "schedule": Power(1.0, 1.0)}
    stochastic = Mixture(n_components=3, learner=OnlineVB(**one_batch), init=start).fit(x)
    streaming = OnlineVB(form="streaming", batch_size=900)
    other = Mixture(n_components=3, learner=streaming, init=start).fit(x)
    close(stochastic.posterior_, other.posterior_)


def test_stochastic_inference_comes_to_the_fixed_point_of_batches() -> None:
    x = rows()
    start = Mixture(n_components=3, random_state=0).fit(x)
    whole = OnlineVB(batch_size=900, schedule=Power(1e-9, 1.0), max_iter=50)
    batch = Mixture(n_components=3, learner=whole, init=start).fit(x)
    small = OnlineVB(batch_size=30, schedule=Power(0.8, 1.0, 5.0), max_iter=40)
    stochastic = Mixture(n_components=3, learner=small, init=start).fit(x)
    np.testing.assert_allclose(stochastic.weights_, batch.weights_, atol=0.005)
    np.testing.assert_allclose(stochastic.means_, batch.means_, atol=0.02)
    np.testing.assert_allclose(stochastic.covariances_, batch.covariances_, atol=0.05)


# bad input


def test_bad_priors_are_refused() -> None:
    x = rows()

    def fit(prior: Any, family: Any = "gaussian") -> None:
        learner = MomentMatching(prior=prior)
        Mixture(family, 3, learner=learner, random_state=0).fit(np.abs(x).round())

    for prior, family, message in [
        (Prior(nu=3.0), "gaussian", "nu of the prior is 3 for 2 columns: it must be above 3"),
        (Prior(covariance=-np.eye(2)), "gaussian", "positive-definite"),
        (Prior(covariance=[[1.0, 0.5], [0.0, 1.0]]), "gaussian", "symmetric"),
        (Prior(covariance=np.eye(3)), "gaussian", r"shape \(2, 2\)"),
        (Prior(covariance=[1.0, 0.0]), Gaussian("diag"), "variances above 0"),
        (Prior(means=[1.0, np.nan]), "gaussian", "finite"),
        (Prior(means=[1.0, -1.0]), "poisson", "above 0"),
        (None, Gaussian("tied"), "no conjugate prior"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            fit(prior, family)
    with pytest.raises(InvalidInputError, match="alpha is 0"):
        Prior(alpha=0)
    with pytest.raises(InvalidInputError, match="prior is 3"):
        MomentMatching(prior=3)
    with pytest.raises(InvalidInputError, match="stochastic"):
        OnlineVB(form="streaming", max_iter=2)
    with pytest.raises(InvalidInputError, match="form"):
        OnlineVB(form="streamin")
    other = Mixture(n_components=2, learner="moment-matching", random_state=0).fit(x)
    with pytest.raises(InvalidInputError, match="not of 3 components in 2 columns"):
        fit(other.posterior_)


def test_learners_without_beliefs_say_so() -> None:
    model = Mixture(n_components=3, random_state=0).fit(rows())
    assert not hasattr(model, "posterior_")
    for call in (
        model.credible_intervals,
        model.expected_parameters,
        lambda: model.posterior_predictive(rows()),
    ):
        with pytest.raises(InvalidInputError, match="moment-matching"):
            call()
