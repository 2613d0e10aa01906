"""Initializers do what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cluster_rows import CENTERS, clusters, matched
from mixfold import Mixture
from mixfold.core.rows import Rows
from mixfold.core.value import equal
from mixfold.families.gaussian import Gaussian
from mixfold.initializers.k_means_plus_plus import KMeansPlusPlus
from mixfold.initializers.k_mle_plus_plus import KMlePlusPlus
from mixfold.initializers.random_labels import RandomLabels
from mixfold.initializers.random_rows import RandomRows
from mixfold.learners.em import EM
from mixfold.models.mixture_model import MixtureModel, MixtureParams

# starts


@pytest.mark.parametrize("init", ["k-means++", "k-mle++", "random-labels", "random-rows", "auto"])
@pytest.mark.parametrize("family", ["gaussian", "poisson", "exponential", "rayleigh", "von-mises"])
def test_every_start_serves_every_family(family: str, init: str) -> None:
    x = np.round(np.abs(clusters()))
    model = Mixture(family, 3, init=init, learner=EM(max_iter=5), random_state=0).fit(x)
    assert np.isfinite(model.score_samples(x)).all()
    assert equal(
        model.params_,
        Mixture(family, 3, init=init, learner=EM(max_iter=5), random_state=0).fit(x).params_,
    )


def drawn(start: Any, x: np.ndarray, k: int = 3, seed: int = 0) -> MixtureParams:
    model = MixtureModel(Gaussian(), k, x.shape[1])
    params: MixtureParams = start.draw(model, Rows(x), np.random.default_rng(seed))
    return params


@pytest.mark.parametrize("start", [KMeansPlusPlus(), KMlePlusPlus()], ids=repr)
def test_spread_starts_find_far_clusters(start: Any) -> None:
    x = clusters(spread=0.1)
    assert all(matched(drawn(start, x, seed=i).components.means) < 0.1 for i in range(20))


def test_random_rows_are_centres_of_their_neighbours() -> None:
    x = clusters(spread=0.1)
    found = [matched(drawn(RandomRows(), x, seed=i).components.means) for i in range(30)]
    assert min(found) < 0.1
    assert max(found) > 4.0  # now and then two rows of one cluster


def test_random_labels_start_close_together() -> None:
    x = clusters()
    means = drawn(RandomLabels(), x, seed=5).components.means
    assert np.linalg.norm(means - x.mean(axis=0), axis=1).max() < 2.0
    assert matched(means) > 3.0


@pytest.mark.parametrize(
    "start", [KMeansPlusPlus(), KMlePlusPlus(), RandomLabels(), RandomRows()], ids=repr
)
def test_starts_from_few_rows(start: Any) -> None:
    for n in (1, 2, 3, 5):
        params = drawn(start, clusters(n), k=4)
        assert np.isfinite(params.components.means).all()
        assert np.isfinite(params.components.scale).all()
        assert params.weights.sum() == pytest.approx(1.0)


def test_means_as_start() -> None:
    x = clusters()
    for given in (CENTERS, CENTERS.tolist()):
        model = Mixture(n_components=3, init=given, learner="em").fit(x)
        np.testing.assert_allclose(model.means_, CENTERS, atol=0.5)  # in the order given
    turned = Mixture(n_components=3, init=CENTERS[::-1], learner="em").fit(x)
    np.testing.assert_allclose(turned.means_[::-1], model.means_, atol=1e-3)


def test_parameters_or_a_model_as_start() -> None:
    x = clusters()
    first = Mixture(n_components=3, learner=EM(0.0, max_iter=3), random_state=0).fit(x)
    whole = Mixture(n_components=3, learner=EM(0.0, max_iter=7), random_state=0).fit(x)
    for given in (first, first.params_):
        held = Mixture(n_components=3, init=given, learner=EM(max_iter=0)).fit(x)
        assert equal(held.params_, first.params_)
        later = Mixture(n_components=3, init=given, learner=EM(0.0, max_iter=4)).fit(x)
        assert equal(later.params_, whole.params_)
        stream = Mixture(n_components=3, init=given).partial_fit(x[:1])
        assert stream.n_seen_ == 1
        np.testing.assert_allclose(stream.means_, first.means_, atol=0.5)


def test_a_given_start_is_fitted_once() -> None:
    x = clusters()
    alone = Mixture(n_components=3, init=CENTERS, learner="em").fit(x)
    assert equal(
        Mixture(n_components=3, init=CENTERS, learner="em", n_init=5).fit(x).params_, alone.params_
    )


def test_the_best_of_several_starts_is_kept() -> None:
    x = clusters(spread=0.1)
    settings: dict[str, Any] = {"init": "random-rows", "learner": EM(max_iter=15)}
    gains = []
    for seed in range(8):
        reached = [
            Mixture(n_components=3, n_init=n, random_state=seed, **settings).fit(x).score(x)
            for n in (1, 2, 4)
        ]
        assert (np.diff(reached) > -1e-9).all()
        gains.append(reached[-1] - reached[0])
    assert max(gains) > 0.5
