"""EM on kept rows of a stream: exactness, independence of blocks, memory, merging, quality."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare
from sklearn.datasets import load_breast_cancer

import mixfold
from mixfold import Mixture
from mixfold.backends.threads import Threads
from mixfold.core.rows import Rows
from mixfold.core.value import equal
from mixfold.families.gaussian import Gaussian
from mixfold.learners._kept_rows import nothing_kept
from mixfold.learners._refits import Known, statistics_of
from mixfold.learners.auto import Auto
from mixfold.learners.drift_aware import DriftAware
from mixfold.learners.reservoir_em import ReservoirEM
from mixfold.models.mixture_model import MixtureModel

SMALL = ReservoirEM(memory_budget=1)  # keeps some hundred rows


def clusters(n: int, seed: int = 0, d: int = 2, k: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(k, d)) * 4.0
    return np.asarray(centers[rng.integers(k, size=n)] + rng.normal(size=(n, d)))


def streamed(model: Any, x: np.ndarray, length: int) -> Any:
    for first in range(0, len(x), length):
        model.partial_fit(x[first : first + length])
    return model


@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("learner", ["auto", SMALL], ids=repr)
def test_one_component_is_the_fit_of_all_rows(covariance: Any, learner: Any) -> None:
    x = clusters(3000) * [1.0, 1e4] + [0.0, 1e6]
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=len(x))
    fit = Mixture(Gaussian(covariance), 1).fit(x, sample_weight=weight)
    stream = Mixture(Gaussian(covariance), 1, learner=learner)
    for part in np.array_split(np.arange(len(x)), 7):
        stream.partial_fit(x[part], sample_weight=weight[part])
    np.testing.assert_allclose(stream.means_, fit.means_, rtol=1e-9)
    np.testing.assert_allclose(stream.covariances_, fit.covariances_, rtol=1e-9)


@pytest.mark.parametrize("learner", ["auto", SMALL], ids=repr)
def test_blocks_do_not_matter(learner: Any) -> None:
    x = clusters(2600)
    whole = streamed(Mixture(n_components=3, learner=learner, random_state=0), x, 10_000)
    for length in (7, 100):
        other = Mixture(n_components=3, learner=learner, random_state=0)
        assert equal(streamed(other, x, length)._now().stream.state, whole._now().stream.state)
        assert equal(other.params_, whole.params_)
    one_by_one = Mixture(n_components=3, learner=learner, random_state=0)
    for row in x:
        one_by_one.learn_one(row)
    assert equal(one_by_one.params_, whole.params_)


def test_reads_do_not_matter_once_rows_are_dropped() -> None:
    x = clusters(2600, 1)
    whole = streamed(Mixture(n_components=3, learner=SMALL, random_state=0), x, 10_000)
    looked = Mixture(n_components=3, learner=SMALL, random_state=0)
    for first in range(0, len(x), 650):
        looked.partial_fit(x[first : first + 650]).score(x[:10])
    assert equal(looked._now().stream.state, whole._now().stream.state)
    assert equal(looked.params_, whole.params_)


@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_stream_that_is_read_once_gives_what_a_fit_gives(covariance: Any, weighted: bool) -> None:
    """On rows without clear clusters, whose likelihood has many maxima."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(700, 3)) * rng.gamma(2.0, size=(700, 1)) + rng.integers(4, size=(700, 3))
    weight = rng.integers(1, 4, size=700).astype(float) if weighted else np.ones(700)
    fit = Mixture(Gaussian(covariance), 6, random_state=1).fit(x, sample_weight=weight)
    stream = Mixture(Gaussian(covariance), 6, random_state=1)
    for part in np.array_split(np.arange(700), 9):
        stream.partial_fit(x[part], sample_weight=weight[part])
    scores = [weight @ model.score_samples(x) / weight.sum() for model in (stream, fit)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)


def test_a_large_sample_is_that_of_a_fit() -> None:
    """More rows than candidates are compared on: the same ones are drawn."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 2)) * rng.gamma(1.0, size=(3000, 1))
    settings: Any = {"n_components": 5, "random_state": 0}
    fit = Mixture(learner=Auto(sample_size=500), **settings).fit(x)
    stream = streamed(Mixture(learner=Auto(sample_size=500), **settings), x, 800)
    assert stream.score(x) == pytest.approx(fit.score(x), abs=1e-4)


def test_kept_rows_are_a_uniform_sample_in_bounded_memory() -> None:
    x = np.arange(20_000.0)[:, None]
    counts = np.zeros(10)
    for seed in range(5):
        kept = nothing_kept()
        for first in range(0, len(x), 1000):
            kept = kept.with_rows(Rows(x[first : first + 1000]), seed, first, 700)
            assert len(kept) <= 700
        numbers = np.concatenate([block.numbers for block in kept.blocks])
        np.testing.assert_array_equal(numbers, np.sort(numbers))
        counts += np.bincount(numbers // 2000, minlength=10)
    assert chisquare(counts).pvalue > 1e-3


def test_rows_of_weight_zero_are_not_kept() -> None:
    rows = Rows(np.ones((50, 2)), np.r_[np.zeros(20), np.ones(30)])
    assert len(nothing_kept().with_rows(rows, 0, 0, 100)) == 30


def test_the_state_is_bounded() -> None:
    model = streamed(Mixture(n_components=3, learner=SMALL, random_state=0), clusters(9000), 3000)
    state = model._now().stream.state
    assert state.kept.below < 1.0
    assert len(state.kept) <= SMALL.most_rows(2) < 1000
    assert len(state.gathered.waiting) < 1024


def test_saving_in_the_middle_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    x = clusters(2000)
    for learner in ("auto", SMALL):
        model = Mixture(n_components=3, learner=learner, random_state=0).partial_fit(x[:1100])
        model.save(tmp_path / "half")
        loaded = mixfold.load(tmp_path / "half").partial_fit(x[1100:])
        assert equal(loaded.params_, model.partial_fit(x[1100:]).params_)


def test_snapshots_hold_no_rows() -> None:
    model = Mixture(n_components=3, random_state=0).partial_fit(clusters(2000))
    copy.copy(model)
    model.partial_fit(clusters(100, 1))
    snapshots = model._now().stream.snapshots
    assert len(snapshots) == 2
    assert all(len(one.state.kept) == 0 for one in snapshots)


@pytest.mark.parametrize("learner", ["auto", SMALL], ids=repr)
def test_merged_copies_have_learned_all_rows_once(learner: Any) -> None:
    x = clusters(3000)
    start = Mixture(n_components=3, learner=learner, random_state=0).partial_fit(x[:600])
    parts = [copy.copy(start).partial_fit(x[a:b]) for a, b in ((600, 1800), (1800, 3000))]
    merged, other = mixfold.merge(parts), mixfold.merge(parts[::-1])
    assert equal(merged.params_, other.params_)
    assert merged.n_rows_ == 3000
    state = merged._now().stream.state
    if learner == "auto":
        assert len(state.kept) == 3000
    whole = Mixture(n_components=3, random_state=0).fit(x)
    assert merged.score(x) > whole.score(x) - 0.02
    assert merged.partial_fit(x[:10]).n_rows_ == 3010


def test_learning_after_a_fit_does_not_forget_it() -> None:
    x = clusters(6000)
    fit = Mixture(n_components=3, random_state=0).fit(x[:3000])
    before = fit.score(x[4000:])
    after = fit.partial_fit(x[3000:3200]).score(x[4000:])
    assert after > before - 0.005
    assert fit.n_rows_ == 3200
    one = Mixture(n_components=1).fit(x[:3000]).partial_fit(x[3000:])
    np.testing.assert_allclose(one.means_, x.mean(axis=0)[None], rtol=1e-9)


@pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")
def test_columns_that_begin_constant_tied_or_far_do_not_explode() -> None:
    rng = np.random.default_rng(0)
    x = clusters(4000)
    x[:, 0] = x[:, 0] * 1e-7 + 1e5
    late = np.where(np.arange(4000) < 1000, 3.0, rng.normal(3.0, 50.0, size=4000))
    tied = rng.integers(0, 4, size=4000).astype(float)
    table = np.column_stack([x, late, tied])
    held_out = table[3500:]
    fit = Mixture(n_components=3, random_state=0).fit(table[:3500])
    stream = streamed(Mixture(n_components=3, random_state=0), table[:3500], 250)
    assert stream.score(held_out) > fit.score(held_out) - 0.2


def test_a_stream_is_learned_as_well_as_a_table() -> None:
    for seed in range(3):
        x = clusters(4000, seed, d=3, k=5)
        train, test = x[:3000], x[3000:]
        one = Mixture(n_components=1).fit(train).score(test)
        fit = Mixture(n_components=5, random_state=seed).fit(train).score(test)
        stream = streamed(Mixture(n_components=5, random_state=seed), train, 100).score(test)
        once = Mixture(n_components=5, random_state=seed)
        once.fit(train[i : i + 100] for i in range(0, 3000, 100))
        assert stream - one > 0.95 * (fit - one)
        assert once.score(test) - one > 0.95 * (fit - one)


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_a_stream_whose_rows_are_dropped_is_learned_nearly_as_well(covariance: Any) -> None:
    """512 rows are kept, for up to 160 parameters: they tell little more than where to begin."""
    for seed in range(2):
        x = clusters(30_000, seed, d=5, k=8)
        train, test = x[:25_000], x[25_000:]
        one = Mixture(Gaussian(covariance), 1).fit(train).score(test)
        fit = Mixture(Gaussian(covariance), 8, random_state=seed).fit(train).score(test)
        model = Mixture(Gaussian(covariance), 8, learner=SMALL, random_state=seed)
        assert streamed(model, train, 5000).score(test) - one > 0.97 * (fit - one)


def test_the_control_variate_is_exact_for_kept_rows_and_precise_for_others() -> None:
    """Statistics under new parameters, from 10% of the rows and the old statistics of all."""
    x, model = clusters(20_000), MixtureModel(Gaussian(), 3, 2)
    backend = Threads(model, 1)
    old = Mixture(n_components=3, random_state=0).fit(x[:1000]).params_
    new = Mixture(n_components=3, init=old).fit(x[1000:4000]).params_
    errors = []
    for rows in (x, x[::10]):
        whole, kept, now = (
            statistics_of(backend, params, [Rows(some)])
            for params, some in ((old, x), (old, rows), (new, rows))
        )
        exact = statistics_of(backend, new, [Rows(x)])
        found = Known(whole, kept, old, Rows(rows)).under(backend, new, now)
        own = now * (exact.count / now.count)
        errors.append([np.abs(one.weight - exact.weight).max() for one in (found, own)])
    assert errors[0][0] < 1e-6
    assert errors[1][0] < 0.6 * errors[1][1]


def test_a_restart_forgets_all_rows_but_the_latest() -> None:
    x = np.concatenate([clusters(3000), clusters(3000, 5) + 30.0])
    learner = DriftAware(ReservoirEM())
    model = streamed(Mixture(n_components=3, learner=learner, random_state=0), x, 500)
    assert len(model.drifts_) >= 1
    assert model.means_.min() > 5.0


@pytest.mark.parametrize("first", [0, 10, 20])
def test_real_columns(first: int) -> None:
    x = load_breast_cancer().data[:, first : first + 6]
    x = x[np.random.default_rng(0).permutation(len(x))]
    train, test = np.split(x, [len(x) * 3 // 5])
    one = Mixture(n_components=1).fit(train).score(test)
    fit = Mixture(n_components=3, random_state=0).fit(train).score(test)
    stream = streamed(Mixture(n_components=3, random_state=0), train, 10).score(test)
    assert stream - one > 0.95 * (fit - one) > 0.1
