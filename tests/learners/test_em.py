"""EM: when it has converged, and what acceleration is worth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cluster_rows import clusters
from mixfold import Bernoulli, Mixture, NegativeBinomial
from mixfold.backends.threads import Threads
from mixfold.core.rows import Rows
from mixfold.learners._em_in_memory import learn
from mixfold.learners.em import EM
from mixfold.models.mixture_model import MixtureModel, MixtureParams


def overlapping(n: int = 500, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) + rng.integers(3, size=(n, 1)) * 1.1


# EM


def test_em_says_whether_it_converged() -> None:
    x = overlapping()
    short = Mixture(n_components=3, learner=EM(max_iter=3), random_state=0).fit(x)
    assert not short.converged_
    assert len(short.history_) == 3
    whole = Mixture(n_components=3, learner=EM(tol=1e-4, criterion="step"), random_state=0).fit(x)
    assert whole.converged_
    gains = np.diff(whole.history_.log_likelihood)
    assert (gains[:-1] >= 1e-4).all()
    assert gains[-1] < 1e-4
    np.testing.assert_array_equal(whole.history_.rows, 500 * np.arange(1, len(whole.history_) + 1))
    assert (whole.history_.step_size == 1.0).all()
    assert (np.diff(whole.history_.time) >= 0).all()
    assert whole.n_seen_ == 500 * len(whole.history_)
    assert whole.score(x) >= whole.history_.log_likelihood[-1]
    assert Mixture(n_components=3, learner="em", max_iter=2).fit(x).n_seen_ == 1000


@pytest.mark.parametrize("family", ["gaussian", "poisson", "exponential"])
def test_acceleration_never_ends_below_plain_em(family: str) -> None:
    """From the same start to convergence, unless it has found another, and better, optimum."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x = np.round(np.abs(clusters(150, spread=2.0 + seed % 4, seed=seed)))
        if family == "gaussian":
            x = x + 0.3 * rng.normal(size=x.shape)
        start = x[rng.choice(len(x), 3, replace=False)]
        plain, fast = (
            Mixture(family, 3, init=start, learner=EM(1e-9, 5000, accelerate)).fit(x)
            for accelerate in (False, True)
        )
        assert plain.converged_
        assert fast.converged_
        assert fast.score(x) >= plain.score(x) - 1e-6, seed


def test_acceleration_saves_passes_where_em_is_slow() -> None:
    """Passes until a level is reached that plain EM needs hundreds of passes for."""
    slow = fast = 0
    for seed in range(6):
        x = overlapping(seed=seed)
        plain, accelerated = (
            Mixture(n_components=3, init=x[:3], learner=EM(1e-7, 3000, accelerate)).fit(x)
            for accelerate in (False, True)
        )
        target = plain.history_.log_likelihood[-1] - 1e-5
        slow += int(np.argmax(plain.history_.log_likelihood >= target)) + 1
        assert accelerated.history_.log_likelihood.max() >= target
        fast += int(np.argmax(accelerated.history_.log_likelihood >= target)) + 1
    assert fast < 0.5 * slow


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("family", [Bernoulli(), NegativeBinomial(size=0.5)], ids=repr)
def test_a_common_factor_of_weights_makes_the_same_accelerated_steps(
    family: Any, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    model = MixtureModel(family, 3, 2)
    truth = MixtureParams(np.full(3, 1 / 3), family.example(3, 2, rng))
    x, _ = model.sample(truth, 60, rng)
    start = MixtureParams(np.full(3, 1 / 3), family.example(3, 2, rng))
    backend, learner = Threads(model, 1), EM(tol=0.0, accelerate=True, max_iter=20)
    found = [
        learn(learner, backend, start, Rows(x[:40], np.full(40, factor)))[0]
        for factor in (1.0, 0.01, 10.0)
    ]
    for other in found[1:]:
        np.testing.assert_allclose(other.weights, found[0].weights, rtol=1e-6)
