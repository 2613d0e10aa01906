"""Components that are not needed become empty, also on a stream and after merging."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import mixfold
from mixfold import Gaussian, Mixture, OnlineVB, Prior, datasets
from mixfold.core.rows import Array, Rows
from mixfold.core.statistics import Statistics
from mixfold.families.poisson import Poisson
from mixfold.models.assignment import statistics_of
from mixfold.models.bayesian_mixture import BayesianMixture
from mixfold.models.mixture_model import MixtureModel

FORMS = ["stochastic", "streaming"]


def separated(number: int, seed: int, n: int = 2000) -> tuple[Array, np.ndarray]:
    """Rows of clusters on a grid of distance 8, and their labels."""
    rng = np.random.default_rng(seed)
    places = rng.permutation(9)[:number]
    centres = 8.0 * np.column_stack([places % 3, places // 3])
    labels = rng.integers(number, size=n)
    return centres[labels] + rng.normal(size=(n, 2)), labels


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("number", [3, 5, 8])
def test_as_many_components_as_clusters(number: int, form: Any) -> None:
    x, labels = separated(number, number)
    model = Mixture(n_components=15, learner=OnlineVB(form=form, sparse=True), random_state=0)
    model.fit(x)
    assert int((model.weights_ > 0.01).sum()) == len(model.components_in_use_) == number
    assert adjusted_rand_score(labels, model.predict(x)) > 0.99
    weights = model.weights_[model.components_in_use_]
    assert (np.diff(weights) <= 0.0).all()
    np.testing.assert_allclose(weights, np.sort(np.bincount(labels) / len(x))[::-1], atol=0.01)


@pytest.mark.parametrize("form", FORMS)
def test_old_faithful_on_a_stream(form: Any) -> None:
    rows = np.asarray(datasets.load_faithful())
    model = Mixture(n_components=10, learner=OnlineVB(form=form, sparse=True), random_state=0)
    for first in range(0, 272, 34):
        model.partial_fit(rows[first : first + 34])
    assert int((model.weights_ > 0.01).sum()) == 2
    plain = Mixture(n_components=10, learner=OnlineVB(form=form), random_state=0).fit(rows)
    assert int((plain.weights_ > 0.01).sum()) == 10
    assert not hasattr(plain, "components_in_use_")


def test_counts_become_sparse_too() -> None:
    rng = np.random.default_rng(0)
    x = rng.poisson(np.where(rng.random(3000) < 0.3, 4.0, 40.0))[:, None]
    learner = OnlineVB(sparse=True)
    model = Mixture("poisson", 6, learner=learner, random_state=0).fit(x)
    used = model.components_in_use_
    np.testing.assert_allclose(model.weights_[used], [0.7, 0.3], atol=0.03)
    np.testing.assert_allclose(model.means_[used, 0], [40.0, 4.0], rtol=0.03)


def test_the_posterior_is_a_fixed_point_of_variational_bayes() -> None:
    """Responsibilities from the posterior, and then the prior with these rows: nothing changes."""
    x, _ = separated(4, 0, 900)
    model = Mixture(
        n_components=4, learner=OnlineVB(form="streaming", sparse=True), random_state=0
    ).fit(x)
    state = model._learned.stream.state
    mixture = BayesianMixture(model.model_)
    log_joint = model.model_.log_joint(mixture.expected_log_params(state.params), x)
    shares = np.exp(log_joint - np.logaddexp.reduce(log_joint, axis=1)[:, None])
    again = mixture.absorb(state.prior, statistics_of(model.model_, Rows(x), shares))
    np.testing.assert_allclose(again.alpha, state.params.alpha, rtol=1e-3)
    np.testing.assert_allclose(again.components.mean, state.params.components.mean, rtol=1e-3)


def test_the_prior_is_that_of_all_rows() -> None:
    x, _ = separated(3, 1)
    learner = OnlineVB(sparse=True, prior=Prior(alpha=0.5, kappa=0.3))
    model = Mixture(n_components=5, learner=learner, random_state=0).fit(x)
    prior = model._learned.stream.state.prior
    np.testing.assert_allclose(prior.alpha, 0.5)
    np.testing.assert_allclose(prior.components.kappa, 0.3)
    np.testing.assert_allclose(prior.components.mean, np.tile(x.mean(axis=0), (5, 1)), atol=0.2)
    scale = prior.components.scale[0]
    covariance = scale @ scale.T / (prior.components.nu[0] - 3.0)
    np.testing.assert_allclose(covariance, np.cov(x.T), rtol=0.1, atol=1.0)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_merged_parts_count_every_row_once(form: Any, sparse: bool, tmp_path: Path) -> None:
    """Rows that waited for a full batch when the parts began are in each of them."""
    x, _ = separated(3, 2)
    learner = OnlineVB(form=form, batch_size=128, sparse=sparse)
    common = Mixture(n_components=3, learner=learner, random_state=0).partial_fit(x[:500])
    common.save(tmp_path / "common.mixfold")
    parts = [mixfold.load(tmp_path / "common.mixfold") for _ in range(3)]
    for part, first in zip(parts, (500, 1000, 1500), strict=True):
        part.partial_fit(x[first : first + 500])
    merged = mixfold.merge(parts)
    prior = merged._learned.stream.state.prior
    assert merged.n_rows_ == 2000
    assert merged.posterior_.alpha.sum() - prior.alpha.sum() == pytest.approx(2000.0, rel=1e-9)
    one = Mixture(n_components=3, learner=learner, random_state=0).partial_fit(x)
    np.testing.assert_allclose(merged.weights_, one.weights_, atol=0.01)
    np.testing.assert_allclose(merged.means_, one.means_, atol=0.1)


def test_blocks_do_not_matter() -> None:
    x, _ = separated(4, 3, 700)
    learner = OnlineVB(batch_size=300, sparse=True)
    whole, rows = (Mixture(n_components=8, learner=learner, random_state=0) for _ in range(2))
    whole.partial_fit(x)
    for first in range(0, 700, 7):
        rows.partial_fit(x[first : first + 7])
    np.testing.assert_array_equal(whole.means_, rows.means_)
    np.testing.assert_array_equal(whole.weights_, rows.weights_)


@pytest.mark.parametrize("family", [Gaussian(), Gaussian("diag"), Poisson()], ids=repr)
def test_united_blocks_are_the_moments_of_all_rows(family: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.poisson(5.0, size=(200, 3)).astype(np.float64)
    model = MixtureModel(family, 3, 3)
    found: Statistics = statistics_of(model, Rows(x), rng.dirichlet(np.ones(3), size=200))
    (block,) = found.blocks
    united = block.united()
    np.testing.assert_allclose(united.mean, np.tile(x.mean(axis=0), (3, 1)), rtol=1e-12)
    covariance = np.cov(x.T, ddof=0)
    for scatter in united.scatter if united.scatter.shape[1] else ():
        full = len(scatter) > 3
        np.testing.assert_allclose(
            scatter, covariance[np.tril_indices(3)] if full else np.diag(covariance), rtol=1e-10
        )
