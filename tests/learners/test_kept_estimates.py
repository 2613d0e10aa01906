"""Parameters of kept rows: those of a fit, and cheap to read after every row."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixfold
from mixfold import Mixture
from mixfold.backends.threads import Threads
from mixfold.core.rows import Rows
from mixfold.core.value import equal
from mixfold.families.gaussian import Gaussian
from mixfold.learners import _kept_estimates
from mixfold.learners._refits import Known, em_on, statistics_of
from mixfold.learners.reservoir_em import ReservoirEM
from mixfold.models.mixture_model import MixtureModel, MixtureParams

SMALL = ReservoirEM(memory_budget=1)


def rows_of(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centers = np.array([[0.0, 0.0], [4.0, 1.0], [1.0, 5.0]])
    return np.asarray(centers[rng.integers(3, size=n)] + rng.normal(size=(n, 2)))


def mixture(**settings: Any) -> Mixture:
    return Mixture(n_components=3, random_state=0, n_threads=1, **settings)


def test_reading_after_every_row_gives_what_one_read_gives_once_rows_are_dropped() -> None:
    x = rows_of(610)
    often = mixture(learner=SMALL).partial_fit(x[:560])
    for n in range(560, 610):
        often.learn_one(x[n])
        assert often.n_rows_ == n + 1
        shown = often.params_
        if n % 7 == 0:
            once = mixture(learner=SMALL).partial_fit(x[: n + 1])
            assert equal(once.params_, shown)
    assert equal(mixture(learner=SMALL).partial_fit(x).params_, often.params_)


def test_reading_after_every_row_continues_from_the_last_search() -> None:
    """Close to what one read gives, and the same after the next search."""
    x = rows_of(200)
    often = mixture().partial_fit(x[:160])
    assert often.params_ is not None
    for n in range(160, 180):
        once = mixture().partial_fit(x[: n + 1])
        shown = often.learn_one(x[n])
        assert shown.score(x) == pytest.approx(once.score(x), abs=0.03)
        searched = shown._now().stream.state.fit.searched
        assert searched == (160 if n < 179 else 180)
    assert equal(often.params_, mixture().partial_fit(x[:180]).params_)


def test_few_rows_are_all_used_and_many_but_the_last() -> None:
    x = rows_of(2048 + 9)
    for n, used in ((900, 900), (2048 + 7, 2048), (2048 + 8, 2048 + 8)):
        kept = mixture().partial_fit(x[:n])._now().stream.state.kept
        model = MixtureModel(Gaussian(), 3, 2)
        assert _kept_estimates.used_rows(model, kept) == used


@pytest.mark.parametrize(("learner", "n"), [("auto", 2050), (SMALL, 1037), ("auto", 50)])
def test_parameters_change_when_they_are_said_to(learner: Any, n: int) -> None:
    x = rows_of(n + 100)
    model = mixture(learner=learner).partial_fit(x[:n])
    now = model._now()
    more = now.learner.rows_until_change(now.model, now.stream.state)
    assert more == (1 if n < 1000 else 16 - n % 16 if learner is SMALL else 8 - n % 8)
    for row in x[n : n + more - 1]:
        assert equal(model.learn_one(row)._now().params, now.params)
    assert not equal(model.learn_one(x[n + more - 1])._now().params, now.params)


def test_few_searches_and_refits_serve_many_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counted(*given: Any) -> MixtureParams:
        made.append(sum(map(len, given[-1])))
        return em_on(*given)

    monkeypatch.setattr(_kept_estimates, "em_on", counted)
    x = rows_of(1400)
    model = mixture().partial_fit(x[:1024])
    searched = {model._now().stream.state.fit.searched}
    for row in x[1024:]:
        model.learn_one(row)
        searched.add(model._now().stream.state.fit.searched)
    assert sorted(searched) == [1024, 1152, 1296]
    # after a search EM from the parameters before is compared with it
    assert made == [1024, 1088, 1152, 1152, 1224, 1296, 1296, 1380]


def test_between_refits_an_estimate_is_one_step_of_em_with_all_rows() -> None:
    x = rows_of(530)
    model = mixture(learner=ReservoirEM(prior_strength=0.0)).partial_fit(x[:520])
    fit, now = model.params_, model._now()
    for row in x[520:]:
        model.learn_one(row)
    backend = Threads(model._now().model, 1)
    assert model._now().stream.state.fit.rows == 520
    parts = [statistics_of(backend, fit, [Rows(rows)]) for rows in (x[:520], x[520:])]
    expected, _ = backend.model.maximize(parts[0] + parts[1])
    np.testing.assert_allclose(model.means_, expected.components.means, rtol=1e-9)
    np.testing.assert_allclose(model.weights_, expected.weights, rtol=1e-9)
    assert now.n_rows == 520


def test_saved_between_refits_it_continues_to_the_same_bits(tmp_path: Path) -> None:
    x = rows_of(300)
    model = mixture().partial_fit(x[:203])
    before = model.params_
    model.save(tmp_path / "model")
    loaded = mixfold.load(tmp_path / "model")
    assert equal(loaded.params_, before)
    assert equal(loaded.partial_fit(x[203:]).params_, mixture().partial_fit(x).params_)


def test_few_rows_with_given_parameters_move_them_little() -> None:
    start = mixture().fit(rows_of(500)).params_
    x = rows_of(30, 1)
    model = mixture(init=start)
    for n in range(3):
        model.learn_one(x[n])
    assert np.abs(model.means_ - start.components.means).max() < 0.5
    whole = mixture(init=start).partial_fit(x)
    for n in range(3, 30):
        model.learn_one(x[n])
    assert equal(model.params_, whole.params_)


@pytest.mark.parametrize("apart", [0.0, 0.05, 5.0])
def test_the_correction_is_not_worse_than_the_sample(apart: float) -> None:
    """The coefficient is 1 under the same parameters, and falls as they move apart."""
    model = MixtureModel(Gaussian(), 3, 2)
    backend = Threads(model, 1)
    old = mixture().fit(rows_of(500)).params_
    means = old.components.means + apart * np.array([[1.0, -1.0], [-1.0, 1.0], [0.0, 0.0]])
    new = MixtureParams(old.weights, mixfold.core.value.replace(old.components, means=means))
    errors, coefficients = [], []
    for seed in range(12):
        x = rows_of(4000, seed + 1)
        kept = Rows(x[::10])
        known = Known(
            statistics_of(backend, old, [Rows(x)]), statistics_of(backend, old, [kept]), old, kept
        )
        now = statistics_of(backend, new, [kept])
        exact = statistics_of(backend, new, [Rows(x)])
        found = known.under(backend, new, now)
        own = now * (exact.count / now.count)
        errors.append([np.square(one.weight - exact.weight).sum() for one in (found, own)])
        coefficients.append(known.coefficient(backend, new))
    ours, samples = np.mean(errors, axis=0)
    if apart == 0.0:
        assert min(coefficients) == 1.0
        assert ours < 1e-9
    elif apart < 1.0:
        assert ours < 0.2 * samples
    else:
        assert max(coefficients) < 0.9
        assert ours < 1.1 * samples


@pytest.mark.parametrize("common", [100, 4000])
def test_merging_uses_all_rows_of_which_a_sample_is_kept(common: int) -> None:
    """Merged means are nearer to those of all rows than the sample's own."""
    errors = []
    for seed in range(3):
        x = rows_of(24_000, seed)
        start = mixture(learner=SMALL).partial_fit(x[:common])
        middle = (common + len(x)) // 2
        parts = [copy.copy(start).partial_fit(some) for some in (x[common:middle], x[middle:])]
        merged = mixfold.merge(parts)
        state = merged._now().stream.state
        assert state.statistics.count == pytest.approx(24_000)
        sample = np.concatenate([block.rows.x for block in state.kept.blocks])
        assert len(sample) <= SMALL.most_rows(2)
        exact = Mixture(n_components=3, random_state=0).fit(x)
        own = Mixture(n_components=3, init=exact.params_, random_state=0).fit(sample)
        for model in (merged, own):
            order = [np.abs(exact.means_ - mean).sum(axis=1).argmin() for mean in model.means_]
            errors.append(np.abs(model.means_ - exact.means_[order]).mean())
    assert np.mean(errors[::2]) < 0.6 * np.mean(errors[1::2])
