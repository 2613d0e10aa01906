"""partial_fit after fit: rows learned already weigh as what they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mixfold import EM, Gaussian, MiniBatchEM, Mixture, OnlineEM, OnlineVB, datasets
from mixfold.learners.drift_aware import DriftAware
from mixfold.schedules.constant import Constant

CENTRES = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])
SCALES = np.array([1.0, 1.3, 0.8])


def rows(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    label = rng.integers(3, size=n)
    return np.asarray(CENTRES[label] + SCALES[label, None] * rng.normal(size=(n, 2)))


def mixture(learner: Any, **settings: Any) -> Mixture:
    given = {"init": CENTRES, "random_state": 0, **settings}
    return Mixture(Gaussian("diag"), 3, learner=learner, **given)


@pytest.mark.parametrize("learner", ["auto", "online-em", "mini-batch-em", "online-vb"])
def test_more_rows_make_a_better_model(learner: str) -> None:
    """Over eight seeds no worse than before, and about as good as from all rows at once."""
    gains, losses = [], []
    for seed in range(8):
        first, second, others = rows(2000, seed), rows(2000, 50 + seed), rows(8000, 100 + seed)
        model = mixture(learner).fit(first)
        before = model.score(others)
        after = model.partial_fit(second).score(others)
        gains.append(after - before)
        losses.append(mixture(learner).fit(np.r_[first, second]).score(others) - after)
    noise = 3.0 * np.std(gains) / np.sqrt(8.0)
    assert np.mean(gains) > -min(noise, 0.001)
    assert np.mean(losses) < 0.002


def test_one_row_changes_the_model() -> None:
    model = Mixture(n_components=2, random_state=0).fit(datasets.load_faithful())
    before = model.means_.copy()
    model.partial_fit([[4.5, 82.0]])
    assert (model.means_ != before).any()
    heavier = np.argmax(model.means_[:, 1])
    toward = (np.array([4.5, 82.0]) - before[heavier]) * (model.means_ - before)[heavier]
    assert (toward > 0.0).all()


def test_passes_do_not_make_rows() -> None:
    """One more row is one of 1201, whatever the number of passes over the others."""
    x = rows(1200, 0)
    new = x.max(axis=0, keepdims=True) + 3.0
    for passes in (5, 200):
        model = mixture(EM(tol=0.0, max_iter=passes)).fit(x)
        expected = (1200.0 * model.weights_ + model.predict_proba(new)[0]) / 1201.0
        np.testing.assert_allclose(model.partial_fit(new).weights_, expected, rtol=1e-9)


@pytest.mark.parametrize("learner", ["em", "auto", "k-mle", MiniBatchEM(batch_size=50)], ids=repr)
def test_rows_of_a_weighted_fit_weigh_what_they_weighed(learner: Any) -> None:
    x, weight = rows(600, 0), np.random.default_rng(0).uniform(2.0, 8.0, size=600)
    model = Mixture("gaussian", 1, learner=learner).fit(x, sample_weight=weight)
    before = model.means_[0]
    model.partial_fit([[9.0, 9.0]], sample_weight=[30.0])
    step = 30.0 / (weight.sum() + 30.0)
    np.testing.assert_allclose(model.means_[0], (1.0 - step) * before + step * 9.0, rtol=1e-12)


def test_no_row_waits_unseen_for_its_batch_to_be_full() -> None:
    x = datasets.load_faithful()
    later = x[:100] + np.array([0.0, 20.0])
    learner = MiniBatchEM(batch_size=1024)
    model = Mixture(n_components=2, learner=learner, random_state=0).fit(x)
    before = model.params_
    model.partial_fit(later)
    assert (model.means_[:, 1] > before.components.means[:, 1]).all()
    # calls are not batches: where they are cut makes no difference
    other = Mixture(n_components=2, learner=learner, random_state=0).fit(x)
    for part in np.split(later, [3, 40]):
        other.partial_fit(part)
    np.testing.assert_array_equal(other.means_, model.means_)


def test_a_schedule_that_forgets_goes_on_forgetting() -> None:
    model = mixture(OnlineEM(schedule=Constant(0.02))).fit(rows(500, 0))
    assert model.partial_fit(rows(5, 1)).history_.step_size[-1] == 0.02


def test_drift_after_a_fit_is_followed() -> None:
    model = mixture(DriftAware(OnlineEM())).fit(rows(4000, 0))
    model.partial_fit(rows(4000, 1))
    model.partial_fit(rows(4000, 2) + 8.0)
    assert len(model.drifts_) > 0
    np.testing.assert_allclose(model.weights_ @ model.means_, 9.0, atol=0.5)


def test_a_posterior_counts_rows_and_not_passes() -> None:
    x = rows(500, 0)
    model = mixture(OnlineVB(max_iter=4)).fit(x)
    model.partial_fit(x[:100])
    prior = mixture(OnlineVB()).fit(x)._learned.stream.state.prior.alpha.sum()
    assert model.posterior_.alpha.sum() == pytest.approx(prior + 600.0)


def test_averaging_begins_after_updates_that_were_made() -> None:
    """The start counts for rows, and a fit for many more: none of them is an update here."""
    learner = OnlineEM(batch_size=10, average_from=30, warmup=0)
    model = mixture(learner)
    model.partial_fit(rows(290, 0))
    assert model._learned.stream.state.learned.prior_count > 0.0
    assert model._learned.stream.state.averaged == 0
    model.partial_fit(rows(20, 1))
    assert model._learned.stream.state.averaged == 2
    fitted = mixture(learner).fit(rows(2000, 0))
    assert fitted.partial_fit(rows(280, 1))._learned.stream.state.averaged == 0
