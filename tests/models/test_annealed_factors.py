"""Full and factor covariances, learned by annealed gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import mixfold
from annealed_rows import begun
from mixfold import AnnealedSGD, Gaussian, Mixture
from mixfold.backends.threads import Threads
from mixfold.core.rows import Array, Rows
from mixfold.core.value import equal
from mixfold.initializers.around_mean import AroundMean
from mixfold.models._annealed_roots import factors
from mixfold.models.column_scaling import scaling_of
from mixfold.testing import families, learners


def test_factors_are_those_of_the_inverse_precision() -> None:
    roots = np.triu(np.random.default_rng(0).normal(size=(3, 6, 6)))
    i = np.arange(6)
    roots[:, i, i] = 10.0 ** np.array([-3, 0, 2, -2, 1, 3])
    found = factors(roots)
    assert (np.diagonal(found, axis1=1, axis2=2) > 0.0).all()
    assert not np.triu(found, 1).any()
    whole = roots @ found
    np.testing.assert_allclose(
        whole @ whole.swapaxes(1, 2), np.eye(6) + np.zeros((3, 1, 1)), atol=1e-9
    )


def test_full_covariances_are_learned() -> None:
    rng = np.random.default_rng(0)
    turn = np.array([[1.0, 0.9], [-0.6, 0.7]])
    x = np.concatenate([rng.normal(size=(2000, 2)) @ turn + c for c in (-3.0, 3.0)])
    x = rng.permutation(x) / 4.0
    rule = AnnealedSGD(max_iter=10)
    best = Mixture(Gaussian("full"), 2, random_state=0).fit(x).score(x)
    for precision in ("float32", "float64"):
        learner = replace(rule, precision=precision)
        model = Mixture(Gaussian("full"), 4, learner=learner, random_state=0).fit(x)
        assert model.score(x) > best - 0.03
    plain = Mixture(Gaussian("diag"), 4, learner=rule, random_state=0).fit(x)
    assert model.score(x) > plain.score(x) + 0.03


def test_columns_that_add_up_do_not_throw_full_steps_about() -> None:
    rng = np.random.default_rng(0)
    x = rng.dirichlet(np.ones(40), size=3000)
    x = x / x.std()  # the sum of columns never varies: precisions grow along it
    model = Mixture(Gaussian("full"), 4, learner=AnnealedSGD(), random_state=0).fit(x)
    assert np.isfinite(model.history_.log_likelihood).all()
    assert np.abs(model.means_).max() < np.abs(x).max()
    best = Mixture(Gaussian("diag"), 4, learner=AnnealedSGD(), random_state=0).fit(x).score(x)
    assert model.score(x) > best


def analysers(n: int, seed: int = 0) -> Array:
    """Rows of two crossing pancakes in [0, 1] or thereabouts, with two factors each."""
    rng, made = np.random.default_rng(seed), np.random.default_rng(9)
    means, loadings = made.random((2, 12)), 0.4 * made.normal(size=(2, 2, 12))
    labels = rng.integers(2, size=n)
    factors = rng.normal(size=(n, 1, 2)) @ loadings[labels]
    return np.asarray(means[labels] + factors[:, 0] + 0.25 * rng.normal(size=(n, 12)))


def learned(x: Array, k: int = 4, **settings: Any) -> Mixture:
    given: Any = {
        "batch_size": 10,
        "max_iter": 6,
        "epsilon": 0.03,
        "epsilon_end": 0.005,
        **settings,
    }
    family = Gaussian("factor", rank=2)
    return Mixture(family, k, learner=AnnealedSGD(**given), random_state=0).fit(x)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_factors_are_learned(precision: Any) -> None:
    x, other = analysers(2000), analysers(2000, seed=1)
    best = Mixture(Gaussian("factor", rank=2), 2, learner="em", random_state=0).fit(x).score(other)
    plain = Mixture(Gaussian("diag"), 4, learner=AnnealedSGD(), random_state=0).fit(x)
    model = learned(x, precision=precision, max_iter=15)
    assert best + 0.02 > model.score(other) > best - 0.15
    assert model.score(other) > plain.score(other) + 2.0
    assert (model.noise_variance_ > 1.0 / 20.0 - 1e-6).all()
    assert (model.history_.bound < model.history_.log_likelihood).all()


def test_single_rows_teach_factors_too() -> None:
    x = analysers(1500)
    best = Mixture(Gaussian("factor", rank=2), 1, learner="em", random_state=0).fit(x).score(x)
    assert learned(x, 1, batch_size=1, max_iter=1, epsilon=0.01).score(x) > best - 0.5


def test_factors_begin_at_something_where_rows_say_nothing() -> None:
    x, learner = analysers(1500), AnnealedSGD(batch_size=10, epsilon=0.03)
    model = Mixture(Gaussian("factor", rank=2), 1, learner=learner, random_state=0)
    model.partial_fit(np.zeros((100, 12))).partial_fit(x)
    best = Mixture(Gaussian("factor", rank=2), 1, learner="em", random_state=0).fit(x).score(x)
    assert model.score(x) > best - 0.5


@pytest.mark.parametrize("far", [30.0, 1e3, 1e6, 1e12])
def test_far_rows_do_not_throw_factors_about(far: float) -> None:
    learner = AnnealedSGD(batch_size=1)
    model, state = begun(learner, 4, 12, Gaussian("factor", rank=2))
    backend = Threads(model, 1)
    for step in range(10):
        before = np.linalg.norm(state.annealed.loadings, axis=(1, 2))
        x = np.full((1, 12), far) * (-1.0) ** step
        state, _ = learner.step(backend, state, Rows(x))
        now = state.annealed
        assert (np.linalg.norm(now.loadings, axis=(1, 2)) <= 2.0 * before * (1.0 + 1e-5)).all()
        assert np.abs(now.means).max() <= 4.0 * far
        assert (now.roots >= 1e-3 * np.sqrt(20.0) * (1.0 - 1e-6)).all()
        assert np.isfinite(backend.posterior(state.params, Rows(x))[0]).all()


def test_a_far_row_is_forgotten() -> None:
    x, scores = analysers(1500), []
    for between in (x[:1], np.full((1, 12), 30.0)):
        learner = AnnealedSGD(batch_size=10, epsilon=0.03, sigma=0.5)
        model = Mixture(Gaussian("factor", rank=2), 4, learner=learner, random_state=0)
        for rows in (x, between, *[x] * 3):
            model.partial_fit(rows)
        scores.append(model.score(x))
    assert scores[1] > scores[0] - 0.3


def test_factors_are_scaled_with_their_columns() -> None:
    x = 1000.0 * analysers(2000) + 5000.0
    units = scaling_of(Rows(x[:256]))
    rule = AnnealedSGD(max_iter=2, batch_size=10, precision="float64")
    family, z = Gaussian("factor", rank=2), (x - units.offset) / units.scale
    by_hand = Mixture(family, 4, learner=rule, init=AroundMean(), random_state=0).fit(z)
    learner = replace(rule, scale=True)
    model = Mixture(family, 4, learner=learner, random_state=0).fit(x)
    loadings = by_hand.loadings_ * units.scale
    np.testing.assert_allclose(model.loadings_, loadings, rtol=1e-5, atol=1e-4)
    noise = by_hand.noise_variance_ * np.square(units.scale)
    np.testing.assert_allclose(model.noise_variance_, noise, rtol=1e-6)
    volume = np.log(units.scale).sum()
    np.testing.assert_allclose(model.score(x), by_hand.score(z) - volume, rtol=1e-6)
    ends = [m.history_.log_likelihood[-1] for m in (model, by_hand)]
    np.testing.assert_allclose(ends[0], ends[1] - volume, rtol=1e-6)


def test_factors_stream_and_go_on(tmp_path: Path) -> None:
    x, learner = analysers(900), AnnealedSGD(batch_size=9)
    new = Mixture(Gaussian("factor", rank=2), 4, learner=learner, random_state=0)
    whole = clone(new).partial_fit(x)
    new.partial_fit(x[:300]).save(tmp_path / "m")
    again = mixfold.load(tmp_path / "m").partial_fit(x[300:899])
    again.learn_one(x[899])
    assert equal(again._now().stream.state, whole._now().stream.state)


@pytest.mark.parametrize("law", learners.LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("batch_size", [1, 7])
def test_laws_of_learners_hold_for_several_factors(
    law: Callable[..., None], batch_size: int
) -> None:
    family = Gaussian("factor", rank=3)
    model, params, x = families.example_mixture(family, 4, 17, 200, np.random.default_rng(7))
    law(model, params, AnnealedSGD(batch_size=batch_size), Rows(0.2 * x), [1, 8, 9, 137])
