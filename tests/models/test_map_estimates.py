"""Estimates of highest posterior density against EM written from the formulas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats

import mixfold
from mixfold import Gaussian, Mixture, Poisson, Prior, Product
from mixfold.core.errors import InvalidInputError

Array = NDArray[np.float64]
MEANS = np.array([[4.0, 0.0], [0.0, 0.0], [2.0, 3.0]])
COVARIANCE = np.array([[1.0, 0.3], [0.3, 2.0]])
GAUSSIAN = Prior(alpha=2.0, kappa=3.0, nu=6.0, means=[1.0, 1.0], covariance=COVARIANCE)
DIAGONAL = Prior(alpha=2.0, kappa=3.0, nu=6.0, means=[1.0, 1.0], covariance=[1.0, 2.0])


def clusters(n: int = 120, seed: int = 0) -> tuple[Array, Any]:
    rng = np.random.default_rng(seed)
    z = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    return MEANS[z] + rng.normal(size=(n, 2)), z


def oracle(x: Array, r: Array, steps: int = 3000) -> tuple[Array, Array, float, float]:
    """EM with the formulas of Fraley and Raftery; the log-likelihood and the log prior."""
    n, d = x.shape
    scale = COVARIANCE * (6.0 - d - 1.0)
    for _ in range(steps):
        s = r.sum(axis=0)
        w = (s + 1.0) / (n + 3.0)
        means = (r.T @ x + 3.0 * np.ones(d)) / (s + 3.0)[:, None]
        covariances = []
        for k, mean in enumerate(means):
            away, off = x - mean, 1.0 - mean
            total = (r[:, k, None] * away).T @ away + 3.0 * np.outer(off, off) + scale
            covariances.append(total / (s[k] + 6.0 + d + 2.0))
        pairs = list(zip(means, covariances, strict=True))
        joint = np.stack([stats.multivariate_normal(m, c).logpdf(x) for m, c in pairs], axis=1)
        joint = joint + np.log(w)
        top = joint.max(axis=1, keepdims=True)
        r = np.exp(joint - top)
        log_likelihood = float((top[:, 0] + np.log(r.sum(axis=1))).sum())
        r = r / r.sum(axis=1, keepdims=True)
    prior = float(np.log(w).sum())
    for m, c in pairs:
        prior += stats.multivariate_normal(np.ones(d), c / 3.0).logpdf(m)
        prior += stats.invwishart(6.0, scale).logpdf(c)
    return w, means, log_likelihood, prior


def test_gaussians_equal_em_written_from_the_formulas() -> None:
    x, z = clusters()
    w, means, log_likelihood, prior = oracle(x, np.eye(3)[z], 300)
    model = Mixture(n_components=3, prior=GAUSSIAN, learner="em", init=MEANS)
    model.set_params(learner__tol=1e-10).fit(x)
    np.testing.assert_allclose(model.weights_, w, atol=1e-5)
    np.testing.assert_allclose(model.means_, means, atol=1e-4)
    assert model.score(x) * len(x) == pytest.approx(log_likelihood, abs=1e-3)
    # the log prior differs by a constant, which another prior at the same parameters shows
    gap = model.lower_bound_ * len(x) - log_likelihood - prior
    other = Mixture(n_components=3, prior=GAUSSIAN, learner="em", init=MEANS, max_iter=3).fit(x)
    # the bound of a pass belongs to the parameters before it
    last = Mixture(n_components=3, prior=GAUSSIAN, learner="em", init=MEANS, max_iter=2).fit(x)
    found = float(np.log(last.weights_).sum())
    for m, c in zip(last.means_, last.covariances_, strict=True):
        found += stats.multivariate_normal(np.ones(2), c / 3.0).logpdf(m)
        found += stats.invwishart(6.0, COVARIANCE * 3.0).logpdf(c)
    bound = other.history_.bound[2] * len(x)
    assert bound - last.score(x) * len(x) - found == pytest.approx(gap, abs=1e-4)


PRIORS: list[tuple[Any, Prior]] = [
    (Gaussian(), GAUSSIAN),
    (Gaussian("diag"), DIAGONAL),
    (Gaussian(), Prior(kappa=0.01)),
    (Poisson(), Prior(alpha=1.5, kappa=4.0)),
    (mixfold.Exponential(), Prior(kappa=4.0, means=[2.0, 1.0])),
    (mixfold.Bernoulli(), Prior(kappa=4.0)),
    (mixfold.Binomial(trials=9), Prior(kappa=4.0)),
    (mixfold.Geometric(), Prior(kappa=4.0)),
    (mixfold.NegativeBinomial(size=3.0), Prior(kappa=4.0)),
    (mixfold.Categorical(levels=4), Prior(kappa=4.0)),
    (Product({0: Gaussian("diag"), 1: Poisson()}), Prior(alpha=1.5, kappa=4.0)),
]


def rows_for(family: Any) -> Array:
    rng = np.random.default_rng(1)
    z = rng.integers(0, 2, 150)
    x = np.abs(np.array([[1.0, 3.0], [6.0, 0.5]])[z] + rng.normal(size=(150, 2)))
    if isinstance(family, Gaussian | mixfold.Exponential):
        return x
    if isinstance(family, Product):
        return np.column_stack([x[:, 0], x[:, 1].round()])
    high = family.supports(2)[0].high
    return np.minimum(x.round(), high if np.isfinite(high) else 30.0)


@pytest.mark.parametrize(("family", "prior"), PRIORS)
def test_em_never_lowers_the_posterior_density(family: Any, prior: Prior) -> None:
    x = rows_for(family)
    model = Mixture(family, 3, prior=prior, learner="em", random_state=0, max_iter=60).fit(x)
    gains = np.diff(model.history_.bound)
    assert len(gains) > 2
    assert gains.min() > -1e-10
    assert not np.array_equal(model.history_.bound, model.history_.log_likelihood)


def test_poisson_and_categorical_count_kappa_rows_more() -> None:
    rng = np.random.default_rng(0)
    x = rng.poisson(3.0, size=(20, 1)).astype(float)
    prior = Prior(kappa=5.0, means=[10.0])
    model = Mixture("poisson", prior=prior, learner="em").fit(x)
    assert model.means_[0, 0] == pytest.approx((x.sum() + 50.0) / 25.0, rel=1e-12)
    codes = rng.integers(0, 3, size=(20, 1)).astype(float)
    levels = Mixture(mixfold.Categorical(levels=4), prior=Prior(kappa=5.0), learner="em").fit(codes)
    counts = np.bincount(codes[:, 0].astype(int), minlength=4)
    # the level that no row has keeps a probability, as the prior is that of all rows
    expected = (counts + 5.0 * counts / 20.0) / 25.0
    np.testing.assert_allclose(levels.probabilities_[0, 0], expected, atol=1e-3)


def test_the_posterior_density_is_the_numerical_maximum_for_one_gaussian() -> None:
    x = np.random.default_rng(0).normal(2.0, 3.0, size=(8, 1))
    prior = Prior(kappa=2.0, nu=5.0, means=[0.0], covariance=[[4.0]])
    model = Mixture(prior=prior, learner="em").fit(x)

    def loss(theta: Array) -> float:
        v = np.exp(theta[1])
        found = stats.norm(theta[0], np.sqrt(v)).logpdf(x).sum()
        found += stats.norm(0.0, np.sqrt(v / 2.0)).logpdf(theta[0])
        return -float(found + stats.invgamma(2.5, scale=0.5 * 4.0 * 3.0).logpdf(v))

    wanted = optimize.minimize(loss, [1.0, 1.0], options={"gtol": 1e-10})
    assert model.means_[0, 0] == pytest.approx(wanted.x[0], abs=1e-6)
    assert model.covariances_[0, 0, 0] == pytest.approx(np.exp(wanted.x[1]), abs=1e-5)


@pytest.mark.parametrize(
    "learner", ["auto", "em", "reservoir-em", "online-em", "mini-batch-em", "sem"]
)
def test_every_learner_counts_the_prior_once(learner: str) -> None:
    x = np.random.default_rng(0).normal(5.0, 1.0, size=(400, 1))
    prior = Prior(kappa=100.0, nu=50.0, means=[0.0], covariance=[[1.0]])
    wanted = Mixture(prior=prior, learner="em").fit(x)
    assert wanted.means_[0, 0] == pytest.approx(x.sum() / 500.0)
    model = Mixture(prior=prior, learner=learner, random_state=0, max_iter=3).fit(x)
    assert model.means_[0, 0] == pytest.approx(wanted.means_[0, 0], abs=0.08)
    if learner == "em":
        return
    stream = Mixture(prior=prior, learner=learner, random_state=0)
    for i in range(0, 400, 100):
        stream.partial_fit(x[i : i + 100])
    assert stream.means_[0, 0] == pytest.approx(wanted.means_[0, 0], abs=0.08)


def test_merged_models_count_the_prior_once(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(5.0, 1.0, size=(600, 1))
    prior = Prior(kappa=150.0, nu=50.0, means=[0.0], covariance=[[1.0]])
    start = Mixture(prior=prior, learner="online-em", random_state=0).partial_fit(x[:200])
    start.save(tmp_path / "m.mixfold")
    parts = [mixfold.load(tmp_path / "m.mixfold").partial_fit(x[i : i + 200]) for i in (200, 400)]
    merged = mixfold.merge(parts)
    whole = Mixture(prior=prior, learner="em").fit(x)
    assert merged.means_[0, 0] == pytest.approx(whole.means_[0, 0], abs=0.1)


def test_the_prior_vanishes_with_the_number_of_rows() -> None:
    gaps = []
    for n in (100, 10_000):
        x, _ = clusters(n)
        plain = Mixture(n_components=3, learner="em", init=MEANS).fit(x)
        model = Mixture(n_components=3, learner="em", init=MEANS, prior=GAUSSIAN).fit(x)
        gaps.append(float(np.abs(model.means_ - plain.means_).max()))
    assert gaps[1] < 0.05 * gaps[0]


def test_a_component_of_one_row_does_not_collapse_with_a_prior() -> None:
    x = np.concatenate([clusters()[0], [[60.0, 60.0]]])
    model = Mixture(n_components=4, prior=Prior(kappa=0.01), random_state=0).fit(x)
    assert model.n_degenerate_ == 0
    assert np.linalg.eigvalsh(model.covariances_).min() > 0.05


def test_with_labels_and_missing_cells() -> None:
    x, z = clusters()
    x[::9, 0] = np.nan
    labels = np.where(np.arange(len(x)) % 4 == 0, z, -1)
    prior = Prior(kappa=1.0, means=MEANS)
    model = Mixture(Gaussian("diag"), 3, prior=prior, random_state=0).fit(x, labels=labels)
    assert (model.predict(x) == z).mean() > 0.85
    other = Mixture(Gaussian("diag"), 3, prior=prior, random_state=0).fit(x)
    assert np.abs(other.means_ - MEANS).max() < 0.8  # components are in the order of the prior


def test_priors_that_are_refused() -> None:
    x = np.abs(clusters()[0]) + 0.1
    for settings, message in (
        ({"prior": Prior(alpha=0.5)}, "at least 1"),
        ({"prior": Prior(nu=2.0)}, "above 3"),
        ({"prior": Prior(means=[1.0])}, "means of the prior"),
        ({"prior": Prior(), "family": "gamma"}, "conjugate priors"),
        ({"prior": Prior(), "family": Gaussian("tied")}, "conjugate priors"),
        ({"prior": Prior(), "learner": "incremental-em"}, "mixtures with a prior"),
        ({"prior": Prior(), "learner": "stepwise-em"}, "without a cap"),
        ({"prior": Prior(), "learner": "online-vb"}, "prior of its own"),
        ({"prior": "weak"}, "a Prior is needed"),
        ({"prior": Prior(), "fixed": mixfold.Fixed(weights="equal")}, "cannot be combined"),
    ):
        given: dict[str, Any] = dict(settings)
        with pytest.raises(InvalidInputError, match=message):
            Mixture(n_components=3, **given).fit(x)
