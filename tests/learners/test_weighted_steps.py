"""Weights in learners that take steps: a weight of v is v rows, and a common factor cancels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mixfold import Gaussian, Mixture, datasets
from mixfold.backends.threads import Threads
from mixfold.core.rows import Rows
from mixfold.families.poisson import Poisson
from mixfold.learners._steps import RowCounts, batch_step, retained, row_steps
from mixfold.learners.exact_mle import ExactMLE
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.schedules.constant import Constant
from mixfold.schedules.power import Power

STEPPING = [
    "mini-batch-em",
    "online-em",
    "online-k-mle",
    "recursive-em",
    "stepwise-em",
    "annealed-sgd",
    "variance-reduced-em",
    "fast-incremental-em",
]
ONE_OVER_N = Power(exponent=1.0, scale=1.0)


def test_two_rows_of_weight_two() -> None:
    model = Mixture("gaussian", 1, learner="exact-mle")
    assert model.fit([[0.0], [1.0]], sample_weight=[2.0, 2.0]).means_ == 0.5


@pytest.mark.parametrize("batch_size", [1, 7])
def test_steps_of_one_over_n_give_the_weighted_mean(batch_size: int) -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.poisson(5.0, size=(100, 2)), rng.exponential(size=100)
    weight[::9] = 0.0
    model = Mixture("poisson", 1, learner=ExactMLE(batch_size=batch_size))
    model.fit(x, sample_weight=weight)
    np.testing.assert_allclose(model.means_[0], weight @ x / weight.sum(), rtol=1e-12)


@pytest.mark.parametrize("learner", STEPPING)
def test_equal_weights_are_as_good_as_none(learner: str) -> None:
    x = datasets.load_faithful() / [6.0, 100.0]

    def fitted(weight: float | None) -> Any:
        weights = None if weight is None else np.full(len(x), weight)
        model = Mixture(Gaussian("diag"), 4, learner=learner, random_state=0)
        return model.fit(x, sample_weight=weights)

    plain = fitted(None)
    for weight in (0.01, 10.0):
        np.testing.assert_allclose(fitted(weight).means_, plain.means_, rtol=1e-6)


def test_a_row_of_weight_v_is_v_rows() -> None:
    """With any steps: small ones, so that rows of one call do not move each other."""
    weights = np.array([1.0, 3.0, 1.0, 2.0])
    for schedule in (ONE_OVER_N, Power(), Constant(1e-4)):
        counts = RowCounts(1e6, 1000, 1000.0)
        after = np.prod(1.0 - row_steps(schedule, counts, weights))
        repeated = np.prod(1.0 - row_steps(schedule, counts, np.ones(7)))
        assert after == pytest.approx(repeated, rel=1e-4)


def test_rows_and_batches_count_alike() -> None:
    """A batch of weight w moves statistics as far as its rows do one by one."""
    rng = np.random.default_rng(1)
    weights, counts = rng.uniform(0.5, 2.0, size=20), RowCounts(30.0, 50, 61.0)
    one_by_one = np.prod(1.0 - row_steps(ONE_OVER_N, counts, weights))
    waiting = counts.with_rows(Rows(np.zeros((20, 1)), weights))
    together = batch_step(ONE_OVER_N, waiting, float(weights.sum()), 20)
    mean = (61.0 + weights.sum()) / 70
    exact = 1.0 - weights.sum() / mean / (30.0 + 70)
    assert 1.0 - together == pytest.approx(exact, rel=1e-12)
    assert one_by_one == pytest.approx(exact, rel=0.02)  # the mean weight moves on the way


@pytest.mark.parametrize("schedule", [ONE_OVER_N, Power(), Constant(1e-6)])
@pytest.mark.parametrize("n", [10, 300_000])
def test_what_is_retained_is_the_product_of_steps(schedule: Any, n: int) -> None:
    before = RowCounts(500.0)
    after = before.after(np.ones(n))
    expected = np.exp(np.log1p(-row_steps(schedule, before, np.ones(n))).sum())
    assert retained(schedule, before, after, 1) == pytest.approx(expected, rel=1e-6)


def test_weights_and_rows_without_weights_mix() -> None:
    """A row without a weight weighs 1, also after rows that weigh more or less."""
    model = MixtureModel(Poisson(), 1, 1)
    backend, learner = Threads(model, 1), ExactMLE()
    params = MixtureParams(np.ones(1), model.family.example(1, 1, np.random.default_rng(0)))
    state = learner.init(backend, params)
    state, _ = learner.step(backend, state, Rows(np.array([[4.0], [8.0]]), np.array([5.0, 4.0])))
    state, _ = learner.step(backend, state, Rows(np.array([[48.0]])))
    assert isinstance(state.params, MixtureParams)
    assert state.params.components.means == pytest.approx(10.0, rel=1e-12)
