"""Clusters, anomaly scores and densities of streams."""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal, norm
from sklearn.metrics import adjusted_rand_score

import mixfold.river
from mixfold.errors import InvalidInputError, MissingExtraError
from mixfold.families.gaussian import Gaussian
from mixfold.river import MixtureAnomaly, MixtureClusterer, MixtureDensity, _columns
from mixfold.river._central_rows import CentralRows
from mixfold.river._columns import NumberColumns
from mixfold.river._stream_mixtures import stream_mixture
from river import anomaly, evaluate, metrics, preprocessing

Cells = dict[Any, Any]
quantile_filter: Any = anomaly.QuantileFilter  # whose methods have no types
rolling_area: Any = metrics.RollingROCAUC


def groups(n: int = 600, seed: int = 0) -> tuple[list[Cells], list[int]]:
    """Rows of two groups."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=n)
    x = rng.normal(size=(n, 2)) + 8.0 * labels[:, None]
    return [{"a": a, "b": b} for a, b in x.tolist()], labels.tolist()


def with_anomalies(n: int = 600) -> list[tuple[Cells, bool]]:
    rows, _ = groups(n)
    rng = np.random.default_rng(1)
    strange = rng.random(n) < 0.05
    far = {"a": 4.0, "b": -4.0}
    return [(far if y else row, bool(y)) for row, y in zip(rows, strange, strict=True)]


def learned(model: Any, rows: list[Cells]) -> Any:
    for row in rows:
        model.learn_one(row)
    return model


def test_clusters_are_the_groups() -> None:
    rows, labels = groups()
    model = MixtureClusterer(n_components=2, seed=0)
    found = []
    for row in rows:
        found.append(model.predict_one(row))
        model.learn_one(row)
    assert set(found[:200]) == {0}
    assert adjusted_rand_score(labels[200:], found[200:]) > 0.98


@pytest.mark.parametrize(
    "model",
    [
        MixtureAnomaly(n_components=2, seed=0),
        preprocessing.StandardScaler() | MixtureAnomaly(n_components=2, seed=0),
        anomaly.QuantileFilter(MixtureAnomaly(n_components=2, seed=0), q=0.95),
        anomaly.ThresholdFilter(MixtureAnomaly(n_components=2, seed=0), threshold=8.0),
    ],
    ids=["alone", "scaled", "quantile", "threshold"],
)
def test_anomalies_score_high_in_pipelines_of_river(model: Any) -> None:
    metric = rolling_area(window_size=500)
    evaluate.progressive_val_score(with_anomalies(), model, metric)
    assert metric.get() > 0.95


def test_rows_between_groups_are_found_by_the_mixture_alone() -> None:
    rows, _ = groups()
    between, usual = {"a": 4.0, "b": 4.0}, {"a": 8.0, "b": 8.0}
    apart = []
    for weight in (0.0, 1.0):
        model = learned(MixtureAnomaly(n_components=2, column_weight=weight, seed=0), rows)
        apart.append(model.score_one(between) - model.score_one(usual))
    assert apart[0] > 5.0
    assert abs(apart[1]) < 1.0


@pytest.mark.parametrize("missing", [False, True])
def test_small_blocks_are_learned_as_large_ones(
    missing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1500, 3)) + 8.0 * rng.integers(2, size=(1500, 1))
    if missing:
        rows[::40, 1] = np.nan
    found = []
    for few in (0, 64):
        monkeypatch.setattr(_columns, "FEW_ROWS", few)
        model = MixtureAnomaly(n_components=2, seed=0)
        for row in rows.tolist():
            model.learn_one(dict(enumerate(row)))
        found.append(model.score_many(pd.DataFrame(rows[:200])))
    np.testing.assert_array_equal(found[0], found[1])


def test_a_filter_classifies_anomalies() -> None:
    model = quantile_filter(MixtureAnomaly(n_components=2, seed=0), q=0.95)
    learned(model, [row for row, _ in with_anomalies()])
    assert model.classify(model.score_one({"a": 4.0, "b": -4.0}))
    assert not model.classify(model.score_one({"a": 8.0, "b": 8.0}))


def test_scores_are_zero_before_there_are_parameters() -> None:
    rows, _ = groups(60)
    model = learned(MixtureAnomaly(n_components=2, grace_period=40, seed=0), rows[:39])
    assert model.score_one(rows[0]) == 0.0
    model.learn_one(rows[39])
    assert model.score_one(rows[0]) != 0.0


def test_scores_of_a_frame_are_those_of_its_rows() -> None:
    rows, _ = groups(300)
    model, frame = MixtureAnomaly(n_components=2, seed=0), pd.DataFrame(rows)
    assert model.score_many(frame).tolist() == [0.0] * 300
    model.learn_many(frame[:100])
    model.learn_many(frame[100:].assign(later=1.0)[["later", "b", "a"]])
    np.testing.assert_allclose(
        model.score_many(frame[["b", "a"]]), [model.score_one(row) for row in rows]
    )


def test_scores_of_mixed_frames_are_those_of_their_rows() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=120), "kind": rng.choice(["u", "v"], 120)})
    model = MixtureAnomaly("auto", n_components=2, seed=0)
    model.learn_many(frame[:60])
    model.learn_many(frame[60:])
    rows = frame.to_dict("records")
    np.testing.assert_allclose(model.score_many(frame), [model.score_one(row) for row in rows])
    assert model.score_one({"x": 0.0, "kind": "never seen"}) > model.score_one({"x": 0.0})
    model.learn_many(pd.DataFrame({"x": [-50.5, 0.25], "kind": [3, None]}))
    assert np.isfinite(model.score_one({"x": "text", "kind": 7}))


def test_a_far_group_does_not_widen_the_single_distribution() -> None:
    rng = np.random.default_rng(0)
    x = np.where(rng.random((2000, 1)) < 0.15, 20.0, 0.0) + rng.normal(size=(2000, 1))
    columns = NumberColumns(["a"])
    central = CentralRows(stream_mixture(Gaussian("diag"), 1, "online-em", 0), 0.25)
    for block in np.split(x, 20):
        central.learn(columns, block)
    mean, variance = central.mixture.means_[0, 0], central.mixture.covariances_[0, 0]
    assert abs(mean) < 0.3
    assert 0.3 < variance < 1.0  # of the three quarters in the middle


# densities


def gaussian_rows(n: int = 200) -> np.ndarray:
    mean, covariance = [1.0, -2.0, 0.5], [[2.0, 0.6, 0.1], [0.6, 1.0, -0.3], [0.1, -0.3, 0.5]]
    return np.random.default_rng(3).multivariate_normal(mean, covariance, n)


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_densities_are_those_of_scipy(covariance: str) -> None:
    x = gaussian_rows()
    density = MixtureDensity(1, covariance, seed=0)
    for row in x:
        density.update(dict(zip("abc", row.tolist(), strict=True)))
    mean, known = x.mean(axis=0), np.cov(x.T, bias=True)
    known = known if covariance == "full" else np.diag(np.diag(known))
    at = {"c": 0.0, "a": 1.5, "b": -1.0}
    expected = multivariate_normal(mean, known)
    assert density(at) == pytest.approx(expected.pdf([1.5, -1.0, 0.0]), rel=1e-6)
    assert density.cdf(at) == pytest.approx(expected.cdf([1.5, -1.0, 0.0]), abs=1e-4)
    alone = norm(mean[1], known[1, 1] ** 0.5)
    assert density({"b": -1.0}) == pytest.approx(alone.pdf(-1.0), rel=1e-6)
    assert density.cdf({"b": -1.0}) == pytest.approx(alone.cdf(-1.0), rel=1e-6)
    assert density.cdf({"z": 0.0}) == density({"z": 0.0}) == 1.0
    assert density.mode == pytest.approx(dict(zip("abc", mean.tolist(), strict=True)))
    assert density.n_samples == len(x)


def test_samples_are_rows_of_the_groups() -> None:
    rows, _ = groups(400)
    density, same = MixtureDensity(2, seed=0), MixtureDensity(2, seed=0)
    assert density.sample() == density.mode == {}
    assert density(rows[0]) == density.cdf(rows[0]) == 0.0
    for row in rows:
        density.update(row)
        same.update(row)
    drawn = [density.sample() for _ in range(400)]
    assert drawn == [same.sample() for _ in range(400)]
    assert np.mean([row["a"] for row in drawn]) == pytest.approx(4.0, abs=0.8)
    assert np.std([row["a"] - row["b"] for row in drawn]) == pytest.approx(2**0.5, abs=0.2)


def test_rows_cannot_be_reverted() -> None:
    with pytest.raises(NotImplementedError, match="unlearn"):
        MixtureDensity().revert({"a": 1.0})


# columns


def test_later_columns_are_ignored_and_numbers_of_any_type_are_taken() -> None:
    rows, _ = groups(100)
    model = learned(MixtureAnomaly(n_components=2, seed=0), rows)
    usual = model.score_one({"a": 1.0, "b": 2.0})
    equal: tuple[Cells, ...] = (
        {"a": 1, "b": 2, "later": 9.0},
        {"b": np.float32(2.0), "a": True},
        {"b": np.int64(2), "a": np.float64(1.0)},
    )
    for same in equal:
        assert model.score_one(same) == pytest.approx(usual)
    lacking = model.score_one({"a": 1.0})
    for cell in (None, float("nan"), "text"):
        assert model.score_one({"a": 1.0, "b": cell}) == pytest.approx(lacking)
    assert lacking != pytest.approx(usual)


def test_names_of_columns_may_be_numbers_or_both() -> None:
    rng = np.random.default_rng(0)
    rows: list[Cells] = [{2: a, "1": b, 10: c} for a, b, c in rng.normal(size=(80, 3)).tolist()]
    one = learned(MixtureAnomaly(n_components=2, seed=0), rows)
    other = learned(
        MixtureAnomaly(n_components=2, seed=0),
        [dict(reversed(list(row.items()))) for row in rows],
    )
    assert one.score_one(rows[0]) == other.score_one(rows[0])


@pytest.mark.parametrize("number", [float("inf"), -1e70])
@pytest.mark.parametrize("before", [10, 100])
@pytest.mark.parametrize("family", ["gaussian", "auto"])
def test_numbers_out_of_range_are_refused_and_change_nothing(
    number: float, before: int, family: str
) -> None:
    rows, _ = groups(200)
    model, same = (MixtureAnomaly(family, n_components=2, seed=0) for _ in range(2))
    learned(model, rows[:before])
    with pytest.raises(InvalidInputError, match=re.escape(f"column 'b' is {number!r}")):
        model.learn_one({"a": 1.0, "b": number})
    assert model.score_one(rows[0]) == learned(same, rows[:before]).score_one(rows[0])
    assert learned(model, rows[before:]).score_one(rows[0]) == (
        learned(same, rows[before:]).score_one(rows[0])
    )


def test_bad_settings_are_refused() -> None:
    for settings, message in (
        ({"grace_period": 0}, "grace_period is 0"),
        ({"n_components": 0}, "n_components is 0"),
        ({"family": "gausian"}, "unknown family 'gausian'"),
        ({"learner": "onlin"}, "unknown learner 'onlin'"),
    ):
        bad: dict[str, Any] = dict(settings)
        for make in (MixtureAnomaly, MixtureClusterer):
            with pytest.raises(InvalidInputError, match=message):
                make(**bad)
    with pytest.raises(InvalidInputError, match=r"column_weight is 1\.5"):
        MixtureAnomaly(column_weight=1.5)
    with pytest.raises(InvalidInputError, match="unknown covariance 'round'"):
        MixtureDensity(covariance="round")


def test_rows_without_numbers_are_refused() -> None:
    model = MixtureAnomaly(grace_period=3, seed=0)
    with pytest.raises(
        InvalidInputError, match=r"columns \['kind'\], none .* only numbers: family='auto'"
    ):
        learned(model, [{"kind": "u"}] * 3)


def test_a_missing_river_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "river", None)
    with pytest.raises(MissingExtraError, match=r"mixfold\.river needs river.*mixfold\[river\]"):
        importlib.reload(mixfold.river)
