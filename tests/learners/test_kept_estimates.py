"""Parameters of kept rows: a function of the rows alone, cheap to read after every row."""

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


@pytest.mark.parametrize(("learner", "first", "last"), [("auto", 40, 57), (SMALL, 560, 610)])
def test_reading_after_every_row_gives_what_one_read_gives(
    learner: Any, first: int, last: int
) -> None:
    x = rows_of(last)
    often = mixture(learner=learner).partial_fit(x[:first])
    for n in range(first, last):
        often.learn_one(x[n])
        assert often.n_rows_ == n + 1
        shown = often.params_
        if n % 7 == 0:
            once = mixture(learner=learner).partial_fit(x[: n + 1])
            assert equal(once.params_, shown)
    assert equal(mixture(learner=learner).partial_fit(x).params_, often.params_)


def test_few_rows_are_all_used_and_many_but_the_last() -> None:
    x = rows_of(2048 + 9)
    for n, used in ((900, 900), (2048 + 7, 2048), (2048 + 8, 2048 + 8)):
        kept = mixture().partial_fit(x[:n])._now().stream.state.kept
        model = MixtureModel(Gaussian(), 3, 2)
        assert len(_kept_estimates.used_rows(model, kept)) == used


@pytest.mark.parametrize(("learner", "n"), [("auto", 2050), (SMALL, 1037), ("auto", 50)])
def test_parameters_change_when_they_are_said_to(learner: Any, n: int) -> None:
    x = rows_of(n + 100)
    model = mixture(learner=learner).partial_fit(x[:n])
    now = model._now()
    more = now.learner.rows_until_change(now.model, now.stream.state)
    assert more == (1 if n < 1000 else 16 - n % 16 if learner is SMALL else 8 - n % 8)
    after = [mixture(learner=learner).partial_fit(x[: n + i]).params_ for i in (more - 1, more)]
    assert equal(after[0], now.params)
    assert not equal(after[1], now.params)


def test_few_refits_serve_many_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counted(*given: Any) -> MixtureParams:
        made.append(sum(map(len, given[-1])))
        return em_on(*given)

    monkeypatch.setattr(_kept_estimates, "em_on", counted)
    x = rows_of(1400)
    model = mixture().partial_fit(x[:1024])
    for row in x[1024:]:
        model.learn_one(row)
        assert model.params_ is not None
    # searches at 1024, 1152 and 1280 rows, refits at every 64 rows
    assert made == [1024, 1088, 1152, 1216, 1280, 1344]


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
