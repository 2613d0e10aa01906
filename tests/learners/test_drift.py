"""Streams that change, and learners that notice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixfold
from mixfold import (
    EM,
    AnnealedSGD,
    DriftAware,
    Gaussian,
    MiniBatchEM,
    Mixture,
    OnlineEM,
    Power,
    RobustCusum,
)
from mixfold.core.errors import InvalidInputError, LearningWarning
from mixfold.core.rows import Array
from mixfold.core.value import equal

CENTRES = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])


def stream(n: int, shift: float = 0.0, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    return np.asarray(CENTRES[rng.integers(3, size=n)] + shift + rng.normal(size=(n, 2)))


def falls(learner: RobustCusum, numbers: Any) -> list[int]:
    state, found = learner.init(), []
    for i, number in enumerate(numbers):
        state = learner.step(state, float(number))
        if state.drift_detected:
            found.append(i)
    return found


# the detector


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("level", [0.0, -200.0])
def test_a_fall_is_found_at_any_scale(scale: float, level: float) -> None:
    noise = np.random.default_rng(0).normal(size=400)
    numbers = level * scale + scale * np.where(np.arange(400) < 200, noise, noise - 6.0)
    assert falls(RobustCusum(), numbers) == [202]


def test_a_rise_is_no_fall() -> None:
    noise = np.random.default_rng(0).normal(size=400)
    assert falls(RobustCusum(), np.where(np.arange(400) < 200, noise, noise + 6.0)) == []
    assert falls(RobustCusum(), -100.0 / np.arange(1.0, 400.0) + 0.01 * noise[1:]) == []


def test_steady_numbers_have_no_falls() -> None:
    rng = np.random.default_rng(0)
    for numbers in (rng.normal(size=5000), rng.standard_t(2, size=5000), np.ones(500)):
        assert falls(RobustCusum(), numbers) == []


def test_outliers_are_no_fall() -> None:
    numbers = np.random.default_rng(0).normal(size=400)
    numbers[[100, 101, 200, 300]] = [-1e9, -np.inf, -np.inf, -50.0]
    assert falls(RobustCusum(), numbers) == []


def test_after_a_fall_the_detector_listens_first() -> None:
    numbers = np.random.default_rng(0).normal(size=300)
    numbers[100:] -= np.arange(200.0)  # and falls on and on
    found = falls(RobustCusum(min_instances=30), numbers)
    assert len(found) > 1
    assert np.diff(found).min() > 30


# the learner


@pytest.mark.parametrize(
    "learner", [OnlineEM(schedule=Power(0.9)), OnlineEM(batch_size=64), MiniBatchEM(256)]
)
def test_a_shift_is_listed_once_and_learned_sooner(learner: Any) -> None:
    n = 20_000
    x = np.concatenate([stream(n), stream(n // 5, shift=4.0, seed=1)])
    plain = Mixture(n_components=3, learner=learner, random_state=0).partial_fit(x)
    aware = Mixture(n_components=3, learner=DriftAware(learner), random_state=0).partial_fit(x)
    assert len(aware.drifts_) == 1
    assert n < aware.drifts_[0] <= n + 5 * 128
    held_out = stream(5000, shift=4.0, seed=2)
    assert aware.score(held_out) > plain.score(held_out) + 0.2
    assert not hasattr(plain, "drifts_")


@pytest.mark.parametrize("learner", [OnlineEM(), MiniBatchEM(256)])
def test_a_steady_stream_is_learned_as_without(learner: Any) -> None:
    x = stream(60_000)
    plain = Mixture(n_components=3, learner=learner, random_state=0).partial_fit(x)
    only_restarts = DriftAware(learner, recent_rows=0)
    aware = Mixture(n_components=3, learner=only_restarts, random_state=0).partial_fit(x)
    assert aware.drifts_.tolist() == []
    assert equal(aware.params_, plain.params_)
    aware = Mixture(n_components=3, learner=DriftAware(learner), random_state=0).partial_fit(x)
    held_out = stream(20_000, seed=5)
    assert aware.drifts_.tolist() == []
    assert aware.score(held_out) > plain.score(held_out) - 0.005


def moving(n: int, seed: int = 0) -> Array:
    """Clusters that move slowly, in all by 8 standard deviations."""
    x = stream(n, seed=seed)
    x[:, 0] += np.linspace(0.0, 8.0, n)
    return x


def test_slow_changes_are_followed() -> None:
    x, next_rows = moving(40_000), stream(5000, seed=3)
    next_rows[:, 0] += 8.0
    never, scores = RobustCusum(threshold=1e9), {}
    for rows in (0, 4096):
        inner = OnlineEM(schedule=Power(0.99))
        learner = DriftAware(inner, never, recent_rows=rows)
        model = Mixture(n_components=3, learner=learner, random_state=0).partial_fit(x)
        assert model.drifts_.tolist() == []
        scores[rows] = model.score(next_rows)
    refit = Mixture(n_components=3, random_state=0).fit(x[-4000:]).score(next_rows)
    assert scores[4096] > refit - 0.05
    assert scores[0] < refit - 0.3


def test_recent_rows_do_not_depend_on_blocks(tmp_path: Path) -> None:
    x = np.concatenate([moving(5000), stream(1500, shift=7.0, seed=1)])
    learner = DriftAware(recent_rows=1024)
    whole = Mixture(n_components=3, learner=learner, random_state=0).partial_fit(x)
    state = whole._now().stream.state
    assert len(state.recent.kept) == 1024
    assert state.recent.short is not None
    parts = Mixture(n_components=3, learner=learner, random_state=0).partial_fit(x[:3333])
    parts.save(tmp_path / "m")
    parts = mixfold.load(tmp_path / "m")
    for row in x[3333:3700]:
        parts.learn_one(row)
    for first in range(3700, len(x), 100):
        parts.partial_fit(x[first : first + 100])
    assert equal(parts._now().stream.state, state)
    assert equal(parts.params_, whole.params_)


@pytest.mark.filterwarnings("ignore::mixfold.errors.DegenerateComponentsWarning")
def test_columns_that_were_constant_at_first_do_no_harm() -> None:
    rng = np.random.default_rng(0)
    x = stream(8000)
    x = np.column_stack([x, np.where(np.arange(8000) < 1000, 2.0, 2.0 + rng.normal(size=8000))])
    model = Mixture(n_components=3, learner="drift-aware", random_state=0).partial_fit(x[:7000])
    refit = Mixture(n_components=3, random_state=0).fit(x[6000:7000]).score(x[7000:])
    assert model.score(x[7000:]) > refit - 0.02


def test_annealed_gradients_are_annealed_again() -> None:
    rng = np.random.default_rng(0)
    places = rng.random((2, 4, 16))
    tasks = [
        np.clip(c[rng.integers(4, size=16_000)] + 0.05 * rng.normal(size=(16_000, 16)), 0.0, 1.0)
        for c in places
    ]
    learner = AnnealedSGD(cap=100.0, epsilon=0.005, epsilon_end=0.001)
    model = Mixture(Gaussian("diag"), 9, learner=DriftAware(learner), random_state=0)
    model.partial_fit(tasks[0])
    assert model.drifts_.tolist() == []
    cold = model._now().stream.state.inner.annealed
    assert cold.sigma < 0.3
    model.partial_fit(tasks[1][:1100])
    (row,) = model.drifts_
    assert 16_000 < row <= 16_000 + 5 * 128
    hot = model._now().stream.state.inner.annealed
    assert hot.sigma > 0.7
    assert hot.epsilon == learner.epsilon


def test_blocks_files_and_single_rows_do_not_matter(tmp_path: Path) -> None:
    x = np.concatenate([stream(6000), stream(2600, shift=5.0, seed=1)])
    learner = DriftAware(detector=RobustCusum(min_instances=10), window=64, recent_rows=0)
    whole = Mixture(n_components=3, learner=learner, random_state=0).partial_fit(x)
    assert len(whole.drifts_) == 1
    parts = Mixture(n_components=3, learner=learner, random_state=0)
    parts.partial_fit(x[:1001]).partial_fit(x[1001:5990]).save(tmp_path / "m")
    again = mixfold.load(tmp_path / "m")
    for row in x[5990:6500]:
        again.learn_one(row)
    assert again.drifts_.tolist() == whole.drifts_.tolist()
    again.learn_one(x[6500]).save(tmp_path / "m")
    again = mixfold.load(tmp_path / "m").partial_fit(x[6501:])
    assert equal(again._now().stream.state, whole._now().stream.state)


@pytest.mark.parametrize("recent_rows", [0, 8192])
@pytest.mark.parametrize("learner", [OnlineEM(), OnlineEM(batch_size=7)])
def test_single_rows_are_learned_as_blocks_are(learner: Any, recent_rows: int) -> None:
    x = stream(700)
    rule = DriftAware(learner, RobustCusum(min_instances=4), window=32, recent_rows=recent_rows)
    whole = Mixture(n_components=3, learner=rule, random_state=0).partial_fit(x)
    single = Mixture(n_components=3, learner=rule, random_state=0)
    for i, row in enumerate(x):
        single.learn_one(row)
        if i % 100 == 50 and not recent_rows:  # else fits continue from those that were read
            assert single.n_seen_ == i + 1 > len(single.drifts_)
    assert equal(single._now().stream.state, whole._now().stream.state)


def test_a_read_at_the_end_of_a_window_counts_its_rows_once() -> None:
    x, rule = stream(400), DriftAware(window=16)
    model = Mixture(n_components=2, learner=rule, random_state=0).partial_fit(x[:160])
    for row in x[160:]:
        model.learn_one(row)
        assert len(model.weights_) == 2
    recent = model._now().stream.state.recent
    assert len(recent.kept) + len(recent.new) == len(x)


def test_a_chosen_fit_is_made_anew_when_it_is_read() -> None:
    """With all of its rows, and again when an eighth of them are new."""
    x = stream(1000)
    learner = DriftAware(window=32)
    model = Mixture(n_components=3, learner=learner, random_state=0).partial_fit(x[:704])
    recent = model._now().stream.state.recent
    assert recent.chosen != 0
    assert recent.read == 0
    fit = Mixture(n_components=3, random_state=0).fit(x[:704])
    assert model.score(x[:704]) == pytest.approx(fit.score(x[:704]), abs=1e-3)
    assert model.partial_fit(x[704:768])._now().stream.state.recent.read == 64
    assert model.partial_fit(x[768:832])._now().stream.state.recent.read == 0


def test_learning_goes_on_where_a_fit_has_ended() -> None:
    x = np.concatenate([stream(20_000), stream(5000, shift=4.0, seed=1)])
    model = Mixture(n_components=3, learner="drift-aware", random_state=0).fit(x)
    (row,) = model.drifts_
    model.partial_fit(stream(8000, shift=4.0, seed=2)).partial_fit(stream(4000, seed=3))
    assert model.drifts_[0] == row
    assert 33_000 < model.drifts_[1] <= 33_000 + 5 * 128
    model.set_params(learner=DriftAware(MiniBatchEM(256))).fit(x)
    model.set_params(learner="drift-aware").partial_fit(x[:10])
    assert model.drifts_.tolist() == []


def test_averages_begin_anew() -> None:
    x = np.concatenate([stream(20_000), stream(10_000, shift=4.0, seed=1)])
    learner = OnlineEM(batch_size=32, average_from=5)
    model = Mixture(n_components=3, learner=DriftAware(learner), random_state=0).partial_fit(x)
    assert len(model.drifts_) == 1
    assert model.means_.mean() > 4.8  # of all iterates it would be about 3.5


def test_bad_settings_are_refused() -> None:
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (DriftAware, {"learner": EM()}, r"learner is EM\(.*cannot be restarted"),
        (DriftAware, {"learner": "online-me"}, "unknown learner 'online-me'"),
        (DriftAware, {"learner": "em"}, r"learner is EM\(.*cannot be restarted"),
        (DriftAware, {"detector": None}, "detector is None"),
        (DriftAware, {"window": 0}, "window is 0"),
        (DriftAware, {"recent_rows": -1}, "recent_rows is -1"),
        (RobustCusum, {"delta": 0.0}, "delta is 0"),
        (RobustCusum, {"max_deviation": 0.5}, "max_deviation is 0.5"),
        (RobustCusum, {"min_instances": 1}, "min_instances is 1"),
        (RobustCusum, {"window_size": 10}, "window_size is 10"),
    ]
    for kind, settings, message in cases:
        with pytest.raises(InvalidInputError, match=message):
            kind(**settings)
    with pytest.raises(InvalidInputError, match="NaN"):
        falls(RobustCusum(), [np.nan])


def test_of_several_passes_the_first_is_watched() -> None:
    """The next begin where the stream began, which is no drift; rows after a fit are watched."""
    x = np.concatenate([stream(6000), stream(6000, 8.0, 1)])
    learner = DriftAware(OnlineEM(schedule=Power(0.9), max_iter=3))
    model = Mixture(n_components=3, learner=learner, random_state=0).fit(x)
    assert all(row <= len(x) for row in model.drifts_)
    assert model.n_seen_ == 3 * len(x)
    before = len(model.drifts_)
    model.partial_fit(stream(6000, 8.0, 2)).partial_fit(stream(3000, -8.0, 3))
    assert len(model.drifts_) == before + 1
    assert model.drifts_[-1] > 3 * len(x) + 6000


def test_what_a_rule_remarks_is_said() -> None:
    learner = DriftAware(AnnealedSGD())
    with pytest.warns(LearningWarning, match="within"):
        Mixture(Gaussian("diag"), 4, learner=learner, random_state=0).fit(stream(300, 500.0))


def test_rules_that_shuffle_and_things_that_are_no_rules_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="sampling='stream'"):
        DriftAware(MiniBatchEM(sampling="with-replacement"))
    with pytest.raises(InvalidInputError, match="OnlineEM"):
        DriftAware(OnlineEM)
