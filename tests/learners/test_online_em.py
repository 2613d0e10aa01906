"""Online EM: steps, warm-up, and streams however they are cut."""

from __future__ import annotations

import numpy as np
import pytest

from cluster_rows import CENTERS, clusters, matched
from mixfold import Mixture
from mixfold.core.value import equal
from mixfold.learners.online_em import OnlineEM
from mixfold.schedules.constant import Constant
from mixfold.schedules.power import Power

# online EM


def test_a_constant_step_follows_a_drift_and_a_falling_one_does_not() -> None:
    rng = np.random.default_rng(0)
    drift = np.linspace(0.0, 20.0, 4000)[:, None] + rng.normal(size=(4000, 1))
    constant, falling = (
        Mixture(learner=OnlineEM(schedule=schedule), random_state=0).partial_fit(drift)
        for schedule in (Constant(0.05), Power(1.0))
    )
    assert abs(constant.means_[0, 0] - 20.0) < 1.0
    assert abs(falling.means_[0, 0] - 10.0) < 2.0
    np.testing.assert_allclose(constant.covariances_, 1.0, atol=0.8)
    assert falling.covariances_[0, 0, 0] > 20.0


def test_warm_up_holds_the_parameters() -> None:
    x = clusters(400)
    model = Mixture(n_components=3, init=CENTERS, learner=OnlineEM(warmup=250))
    model.partial_fit(x[:100])
    held = model.params_
    assert equal(model.partial_fit(x[100:250]).params_, held)
    assert not equal(model.partial_fit(x[250:251]).params_, held)
    eager = Mixture(n_components=3, init=CENTERS, learner=OnlineEM(warmup=0))
    assert not equal(eager.partial_fit(x[:100]).params_, eager.partial_fit(x[100:101]).params_)


def test_online_em_learns_in_one_pass() -> None:
    x = clusters(3000)
    for learner in (OnlineEM(), OnlineEM(batch_size=10), OnlineEM(max_iter=2)):
        model = Mixture(n_components=3, learner=learner, random_state=0).fit(x)
        assert model.n_seen_ == 3000 * learner.max_iter
        assert matched(model.means_) < 0.4


@pytest.mark.parametrize("family", ["gaussian", "poisson", "exponential"])
def test_any_way_of_cutting_a_stream_is_the_same(family: str) -> None:
    x = np.round(np.abs(clusters(260)))
    whole = Mixture(family, 3, random_state=0).partial_fit(x)
    ones, blocks, mixed = (Mixture(family, 3, random_state=0) for _ in range(3))
    for row in x:
        ones.learn_one(row)
    blocks.partial_fit([x[:1], x[1:130], x[130:]])
    mixed.partial_fit(x[:120])
    for row in x[120:140]:
        mixed.learn_one(row)
    mixed.learn_many(x[140:])
    for model in (ones, blocks, mixed):
        assert equal(model.params_, whole.params_)
        assert equal(model._now().stream.state, whole._now().stream.state)
        assert model.n_seen_ == 260


def test_counts_learned_stepwise_begin_where_counts_do() -> None:
    x = np.random.default_rng(0).poisson(4.0, size=(300, 2)).astype(float)
    model = Mixture("poisson", 2, learner="stepwise-em", random_state=0).fit(x)
    starts = [one._settings().initialization.start for one in (model, Mixture("poisson", 2))]
    assert equal(*starts)
    assert np.abs(model.weights_ @ model.means_ - x.mean(axis=0)).max() < 0.5
