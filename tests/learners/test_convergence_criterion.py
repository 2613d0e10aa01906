"""When learning has converged: by the nats that are left, whatever the number of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import norm

from mixfold import GaussianMixture, Mixture
from mixfold.learners._convergence import has_converged, remaining, with_gain
from mixfold.learners.auto import Auto
from mixfold.learners.em import EM


def two_groups(n: int) -> np.ndarray:
    """Two groups that overlap, so that EM converges slowly."""
    rng = np.random.default_rng(1)
    second = rng.random(n) < 0.7
    return np.where(second, rng.normal(2.0, 1.5, n), rng.normal(0.0, 1.0, n))[:, None]


def log_terms(theta: np.ndarray, x: np.ndarray) -> np.ndarray:
    """log w_k p(x | k) of logit, two means and two log deviations, by scipy."""
    logit, a, b, log_a, log_b = theta
    logs = -np.logaddexp(0.0, -logit), -np.logaddexp(0.0, logit)
    parts = [norm.logpdf(x[:, 0], m, np.exp(s)) for m, s in ((a, log_a), (b, log_b))]
    return np.stack([log + part for log, part in zip(logs, parts, strict=True)])


def scores(theta: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The gradient of every row's log density, by Fisher's identity."""
    terms = log_terms(theta, x)
    share = np.exp(terms - logsumexp(terms, axis=0))
    weight = 1.0 / (1.0 + np.exp(-theta[0]))
    z = [(x[:, 0] - theta[1 + k]) / np.exp(theta[3 + k]) for k in range(2)]
    means = [share[k] * z[k] / np.exp(theta[3 + k]) for k in range(2)]
    deviations = [share[k] * (z[k] ** 2 - 1.0) for k in range(2)]
    return np.stack([share[0] - weight, *means, *deviations], axis=1)


def coordinates(model: Any) -> np.ndarray:
    weights, means = model.weights_, model.means_[:, 0]
    deviations = np.log(model.covariances_[:, 0, 0]) / 2.0
    return np.array([np.log(weights[0] / weights[1]), *means, *deviations])


@pytest.mark.parametrize(
    ("learner", "n"),
    [(EM(max_iter=5000), 2_000), (EM(accelerate=True), 20_000), (Auto(), 100_000)],
)
def test_estimates_are_within_a_fifth_of_a_standard_error(learner: Any, n: int) -> None:
    x = two_groups(n)
    model = Mixture(n_components=2, learner=learner, random_state=0).fit(x)
    assert model.converged_
    found = coordinates(model)
    best = minimize(
        lambda theta: -logsumexp(log_terms(theta, x), axis=0).mean(),
        found,
        jac=lambda theta: -scores(theta, x).mean(axis=0),
        method="BFGS",
        options={"gtol": 1e-9},
    ).x
    each = scores(best, x)
    errors = np.sqrt(np.diag(np.linalg.inv(each.T @ each)))
    assert (np.abs(found - best) / errors).max() < 0.2


def test_the_drop_in_keeps_the_meaning_of_tol() -> None:
    model = GaussianMixture(2, tol=1e-3, random_state=0).fit(two_groups(2_000))
    gains = np.diff(model.lower_bounds_)
    assert gains[-1] < 1e-3
    assert (gains[:-1] >= 1e-3).all()


def test_more_rows_need_a_smaller_gain_per_row() -> None:
    rows = np.random.default_rng(2).normal(size=(200, 1)) + np.repeat([[0.0], [5.0]], 100, axis=0)
    passes = []
    for n in (200, 20_000):  # the same rows, so the same path
        model = Mixture(n_components=2, learner=EM(), init=rows[[0, 199]])
        assert model.fit(np.resize(rows, (n, 1))).converged_
        passes.append(model.n_seen_ // n)
    assert passes[0] < passes[1]


def test_weights_are_rows() -> None:
    """Rows of weight 1,000, and rows whose weights sum to one: at least so many rows there are."""
    x = two_groups(500)
    start = Mixture(n_components=2, learner=EM(max_iter=2), random_state=0).fit(x).params_

    def passes(weight: float) -> int:
        model = Mixture(n_components=2, init=start, learner=EM())
        model.fit(x, sample_weight=np.full(500, weight))
        return len(model.history_)

    assert passes(1e-3 / 500) == passes(1.0) < passes(1000.0)


@pytest.mark.parametrize("accelerate", [False, True])
def test_zero_is_never(accelerate: bool) -> None:
    learner = EM(tol=0.0, max_iter=150, accelerate=accelerate)
    model = Mixture(n_components=2, learner=learner, random_state=0).fit(two_groups(200))
    assert not model.converged_
    assert len(model.history_) == 150


def test_acceleration_ends_where_plain_steps_end_in_fewer_passes() -> None:
    x = two_groups(3_000)
    plain, fast = (
        Mixture(n_components=2, learner=EM(tol=1e-7, max_iter=9000, accelerate=a), random_state=0)
        for a in (False, True)
    )
    plain.fit(x), fast.fit(x)
    assert plain.converged_
    assert fast.converged_
    np.testing.assert_allclose(fast.means_, plain.means_, atol=1e-3)
    assert len(fast.history_) * 4 < len(plain.history_)


# the rule itself


@pytest.mark.parametrize("rate", [0.992, 0.995, 0.999])
def test_what_is_left_of_a_geometric_series(rate: float) -> None:
    gains = [2.0 * rate**i for i in range(8)]
    assert remaining(gains, -1e3) == pytest.approx(gains[-1] * rate / (1.0 - rate))


def test_a_fast_start_does_not_hide_a_slow_end() -> None:
    gains = [1e-4, 9.98e-5, 1e-6]  # the last gain fell short by chance
    assert remaining(gains, -1e3) > 100 * gains[-1]


def test_rounding_is_no_gain() -> None:
    assert remaining([1e-3, -1e-9, 1e-9], -1e4) == 0.0
    assert remaining([1e-3, 1e-12], -1e4) == 0.0
    assert remaining([1e-3, -0.5, 0.4], -1e4) > 0.0  # no rounding explains such a fall


def test_one_gain_is_not_enough() -> None:
    assert with_gain([], np.inf) == []
    assert not has_converged([1e-9], -10.0, 10.0, 0.005, "remaining")
    assert has_converged([1e-9, 1e-9], -10.0, 10.0, 0.005, "remaining")
    assert has_converged([1e-9], -10.0, 10.0, 0.005, "step")
    assert not has_converged([], -10.0, 10.0, 0.005, "step")
