"""Changes that are found in the columns of windows, and detectors that are not ours."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone

import mixfold
from mixfold import DriftAware, Gaussian, Mixture, OnlineEM, SelfStartingCusum
from mixfold.core.errors import DegenerateComponentsWarning, InvalidInputError, ModelFileError
from mixfold.core.rows import Array
from mixfold.core.value import equal, replace
from river import drift as river

CENTRES = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
Draw = Callable[[np.random.Generator, int], Array]
NOISE: dict[str, Draw] = {
    "Gaussian": lambda rng, n: rng.normal(size=(n, 2)),
    "t, 3 degrees of freedom": lambda rng, n: rng.standard_t(3.0, (n, 2)),
    "t, 2 degrees of freedom": lambda rng, n: rng.standard_t(2.0, (n, 2)),
    "Cauchy": lambda rng, n: rng.standard_cauchy((n, 2)),
    "log-normal": lambda rng, n: rng.lognormal(sigma=1.5, size=(n, 2)),
}


def stream(n: int, noise: str = "Gaussian", seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    return np.asarray(CENTRES[rng.integers(3, size=n)] + NOISE[noise](rng, n))


def watched(detector: Any = None, **settings: Any) -> Mixture:
    """A mixture that does not keep recent rows, which takes less time."""
    detector = SelfStartingCusum() if detector is None else detector
    learner = DriftAware(detector=detector, recent_rows=0, **settings)
    return Mixture(n_components=3, learner=learner, random_state=0)


# the detector


def textbook_cusum(numbers: Array, delta: float, h: float, first: int) -> list[int]:
    """Hawkins' self-starting sums, written once more with the quantiles of scipy."""
    found, start, above, below = [], 0, 0.0, 0.0
    for i, x in enumerate(numbers):
        past = numbers[start:i]
        if len(past) < first:
            continue
        n = len(past)
        t = (x - past.mean()) / past.std(ddof=1) * np.sqrt(n / (n + 1))
        z = (
            stats.norm.ppf(stats.t.cdf(t, n - 1))
            if t < 0
            else -stats.norm.ppf(stats.t.sf(t, n - 1))
        )
        above, below = max(0.0, above + z - delta), max(0.0, below - z - delta)
        if max(above, below) > h:
            found.append(i)
            start, above, below = i + 1, 0.0, 0.0
    return found


@pytest.mark.parametrize("seed", range(4))
def test_changes_are_those_of_a_textbook_cusum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=600) + 2.0 * (np.arange(600) >= 300)
    detector = SelfStartingCusum(1e-3, max_deviation=50.0)
    limit, found, state = detector.threshold(1), list[int](), detector.init()
    for i, x in enumerate(numbers):
        state = detector.step(state, x)
        if state.drift_detected:
            found.append(i)
    assert found == textbook_cusum(numbers, 1.0, limit, 10)
    assert any(300 <= i < 310 for i in found)


@pytest.mark.parametrize("together", [1, 6])
@pytest.mark.parametrize("rate", [0.01, 0.003])
def test_false_alarms_come_at_the_stated_rate(together: int, rate: float) -> None:
    detector, n = SelfStartingCusum(rate), 15_000
    state, found = detector.init(), 0
    for numbers in np.random.default_rng(together).normal(size=(n, together)):
        state = detector.step(state, numbers)
        found += state.drift_detected
    assert 0.6 * rate * n < found < 1.5 * rate * n


def test_the_threshold_is_that_of_siegmund() -> None:
    for rate, delta in ((1e-3, 0.5), (1e-6, 1.0)):
        b = SelfStartingCusum(rate, delta).threshold(1) + 1.166
        length = (np.exp(2 * delta * b) - 2 * delta * b - 1) / (2 * delta**2)
        assert length == pytest.approx(2.0 / rate)
    assert SelfStartingCusum().threshold(8) > SelfStartingCusum().threshold(1)


def test_outliers_do_not_hide_a_change() -> None:
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=300)
    numbers[[40, 90]] = 1e9, -np.inf
    numbers[200:] += 3.0
    detector = SelfStartingCusum()
    found = []
    for i, x in enumerate(numbers):
        detector.update(x)
        if detector.drift_detected:
            found.append(i)
    assert len(found) == 1
    assert 200 < found[0] < 210


# what is compared


@pytest.mark.filterwarnings("ignore::mixfold.errors.DegenerateComponentsWarning")
@pytest.mark.parametrize("noise", NOISE)
def test_a_shift_of_one_deviation_is_found_and_nothing_else(noise: str) -> None:
    x = stream(60_000, noise, seed=1)
    x[50_000:] += 1.0
    (row,) = watched().partial_fit(x).drifts_
    assert 50_000 < row <= 50_000 + (1024 if noise in ("Cauchy", "log-normal") else 512)


def test_columns_that_moved_are_named(tmp_path: Path) -> None:
    x = np.column_stack([stream(30_000), np.random.default_rng(1).normal(size=30_000)])
    x[20_000:, 2] -= 2.0
    x[20_000:, 0] += 0.5
    frame = pd.DataFrame(x, columns=["time", "size", "price"])
    model = watched().partial_fit(frame)
    (row,), (moved,) = model.drifts_, model.drift_columns_
    assert row <= 20_000 + 3 * 128
    assert list(moved) == ["price", "time", "size"]
    assert moved["price"] == pytest.approx(-2.0, abs=0.3)
    assert moved["time"] == pytest.approx(0.5, abs=0.3)
    assert moved["size"] == pytest.approx(0.0, abs=0.3)
    model.save(tmp_path / "m")
    assert mixfold.load(tmp_path / "m").drift_columns_ == [moved]
    assert list(watched().partial_fit(x).drift_columns_[0]) == [2, 0, 1]
    with pytest.raises(AttributeError, match="DriftAware"):
        Mixture(learner="online-em").partial_fit(x[:100]).drift_columns_  # noqa: B018


def test_other_scales_and_weights_are_found() -> None:
    n, rng = 30_000, np.random.default_rng(2)
    wider = stream(2 * n)
    wider[n:, 1] += rng.normal(scale=0.9, size=n)
    (row,) = watched().partial_fit(wider).drifts_
    assert n < row <= n + 8 * 128
    components = np.append(rng.integers(3, size=n), rng.choice(3, n, p=[0.5, 0.3, 0.2]))
    heavier = CENTRES[components] + rng.normal(size=(2 * n, 2))
    (row,) = watched().partial_fit(heavier).drifts_
    assert n < row <= n + 8 * 128


def test_missing_cells_counts_and_categories_are_compared_too() -> None:
    n, rng = 4000, np.random.default_rng(0)
    group = rng.integers(2, size=2 * n)
    frame = pd.DataFrame(
        {
            "visits": rng.poisson(np.where(np.arange(2 * n) < n, 2.0, 3.0) + 9.0 * group),
            "size": np.where(rng.random(2 * n) < 0.2, np.nan, rng.normal(5.0 * group)),
            "colour": np.where(rng.random(2 * n) < 0.2 + 0.6 * group, "red", "blue"),
        }
    )
    model = Mixture("auto", 2, learner=DriftAware(window=64, recent_rows=0), random_state=0)
    model.partial_fit(frame[:100]).partial_fit(frame[100:])
    (row,), (moved,) = model.drifts_, model.drift_columns_
    assert n < row <= n + 8 * 64
    assert next(iter(moved)) == "visits"


@pytest.mark.parametrize("family", ["gaussian", "poisson", "categorical"])
def test_rows_that_are_all_the_same_have_no_drift(family: str) -> None:
    model = Mixture(family, 2, learner="drift-aware", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateComponentsWarning)
        model.partial_fit(np.ones((6000, 2)))
        assert not len(model.drifts_)


def test_a_state_for_other_numbers_is_refused() -> None:
    model = watched(window=32).partial_fit(stream(2000))
    learned = model._now()
    state = learned.stream.state
    now = state.monitor.now
    assert now.detected.n > 0
    learned.learner.check_state(learned.training_model, state)
    features = now.features
    for wrong in (
        replace(now, detected=replace(now.detected, mean=now.detected.mean[:-1])),
        replace(now, detected=replace(now.detected, above=-now.detected.above - 1.0)),
        replace(now, features=replace(features, used=np.zeros_like(features.used))),
        replace(now, features=replace(features, level=features.level[1:])),
        replace(now, features=replace(features, precision=features.precision[:1])),
        replace(now, windows=-1),
    ):
        monitor = replace(state.monitor, now=wrong)
        with pytest.raises(InvalidInputError):
            learned.learner.check_state(learned.training_model, replace(state, monitor=monitor))


# detectors of river


@pytest.mark.parametrize(
    "detector",
    [river.ADWIN(), river.KSWIN(alpha=1e-6, seed=0), river.PageHinkley(threshold=6.0)],  # type: ignore[no-untyped-call]
    ids=lambda detector: type(detector).__name__,
)
def test_detectors_of_river_find_a_shift(detector: Any) -> None:
    x = stream(30_000)
    x[20_000:] += 2.0
    shown = str(vars(detector)) if hasattr(detector, "__dict__") else repr(detector)
    model = clone(watched(detector)).partial_fit(x[:20_200])
    for i in range(20_200, 30_000, 700):
        model.partial_fit(x[i : i + 700])
    (row,) = model.drifts_
    assert 20_000 < row <= 20_000 + 48 * 128
    assert [*model.drift_columns_[0]] in ([0, 1], [1, 0])
    assert model.drifts_.tolist() == watched(detector).partial_fit(x).drifts_.tolist()
    assert shown == (str(vars(detector)) if hasattr(detector, "__dict__") else repr(detector))


def test_models_with_a_detector_of_river_are_not_saved(tmp_path: Path) -> None:
    model = watched(river.ADWIN()).partial_fit(stream(3000))  # type: ignore[no-untyped-call]
    with pytest.raises(ModelFileError, match=r"ADWIN.*cannot hold: use one of mixfold's own"):
        model.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()
    again = watched().set_params(checkpoint=tmp_path / "c", learner=model.learner)
    with pytest.raises(ModelFileError, match="ADWIN"):
        again.fit(stream(3000))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (river.ADWIN, "detector is <class"),
        (3, "detector is 3: give"),
        (river.binary.DDM(), "DDM, which takes errors"),
    ],
    ids=["class", "number", "of errors"],
)
def test_objects_that_are_no_detectors_are_refused(given: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        DriftAware(detector=given)


def test_learning_goes_on_with_a_detector_of_the_same_kind() -> None:
    one = DriftAware(detector=river.ADWIN())  # type: ignore[no-untyped-call]
    assert one.can_continue_from(DriftAware(detector=river.ADWIN(delta=0.1)))  # type: ignore[no-untyped-call]
    assert not one.can_continue_from(DriftAware(detector=river.PageHinkley()))
    assert not one.can_continue_from(DriftAware())


def test_blocks_do_not_matter_to_what_is_compared() -> None:
    x = stream(9000)
    x[7000:] += 1.5
    learner = DriftAware(OnlineEM(), window=64, recent_rows=0)
    whole = Mixture(Gaussian("diag"), 3, learner=learner, random_state=0).partial_fit(x)
    parts = Mixture(Gaussian("diag"), 3, learner=learner, random_state=0)
    for start in range(0, 6000, 777):
        parts.partial_fit(x[start : min(start + 777, 6000)])
    for row in x[6000:]:
        parts.learn_one(row)
    assert len(whole.drifts_) == 1
    assert parts.drift_columns_ == whole.drift_columns_
    assert equal(parts._now().stream.state, whole._now().stream.state)
