"""Alarms of `AnomalyDetector`: how often, for which rows, and why."""

from __future__ import annotations

import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import mixfold
from mixfold import AnomalyDetector, Constant, Gaussian, Mixture, OnlineEM, Poisson, Product
from mixfold.core.value import replace
from mixfold.errors import (
    DegenerateComponentsWarning,
    InvalidInputError,
    LearningWarning,
    MissingExtraError,
    ModelFileError,
)
from mixfold.estimators._unlearned_scores import learned_scores
from mixfold.fitting.files import write
from mixfold.fitting.reading import read

CENTRES = np.array([[0.0, 0.0, 0.0], [8.0, 0.0, 3.0], [0.0, 8.0, -3.0]])
ONLINE = OnlineEM(batch_size=64)


def rows(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.asarray(CENTRES[rng.integers(3, size=n)] + rng.normal(size=(n, 3)))


def detector(rate: float = 0.01, learner: Any = ONLINE, k: int = 3) -> AnomalyDetector:
    mixture = Mixture("gaussian", k, learner=learner, random_state=0, n_threads=1)
    return AnomalyDetector(mixture, false_alarm_rate=rate)


# streams


def test_alarms_of_a_stream_are_as_frequent_as_promised() -> None:
    found = detector().partial_fit(rows(60_000))
    assert found.n_scored_ == 60_000 - 512
    assert found.n_alarms_ / found.n_scored_ == pytest.approx(0.01, rel=0.15)


@pytest.mark.parametrize("learner", [ONLINE, OnlineEM(batch_size=64, schedule=Constant(0.02))])
def test_alarms_are_as_frequent_as_promised_while_the_means_move(learner: OnlineEM) -> None:
    moved = rows(60_000) + np.linspace(0.0, 1.5, 60_000)[:, None]
    found = detector(learner=learner).partial_fit(moved)
    assert found.n_alarms_ / found.n_scored_ == pytest.approx(0.01, rel=0.2)


def test_alarms_do_not_depend_on_blocks() -> None:
    x = rows(3000)
    x[2000] += 30.0
    one, blocks, later = detector(), detector(), detector()
    alarms = [alarm for row in x if (alarm := one.process_one(row)) is not None]
    assert [a for i in range(0, 3000, 77) for a in blocks.process_many(x[i : i + 77])] == alarms
    later.partial_fit(x[:1000]).learn_many(x[1000:1500])
    for row in x[1500:1900]:
        later.learn_one(row)
    assert later.process_many(x[1900:]) == [alarm for alarm in alarms if alarm.row >= 1900]
    assert 2000 in [alarm.row for alarm in alarms]
    assert one.threshold_ == blocks.threshold_ == later.threshold_
    assert one.n_alarms_ == blocks.n_alarms_ == later.n_alarms_ == len(alarms)


def test_an_alarm_says_which_columns_made_it() -> None:
    x = pd.DataFrame(rows(3000), columns=["a", "b", "c"])
    found = detector().partial_fit(x)
    row = {"a": 8.1, "b": 0.2, "c": -12.0}
    assert found.predict_one(row)
    why = found.explain_one(row)
    alarm = found.process_one(row)
    assert alarm is not None
    assert alarm.columns == why
    assert next(iter(alarm.columns)) == "c"
    assert alarm.columns["c"] > 50.0 > alarm.columns["b"]
    assert alarm.score > alarm.threshold == found.threshold_
    assert alarm.row == 3000
    assert str(alarm).startswith("row 3000: score ")


def test_an_alarm_of_a_huge_value_is_one_short_line() -> None:
    found = detector().partial_fit(rows(1000)).process_one([1e40, 0.0, 0.0])
    assert found is not None
    assert "e+" in str(found)
    assert len(str(found)) < 100


def test_rows_that_are_all_the_same_have_a_threshold() -> None:
    with pytest.warns(DegenerateComponentsWarning):
        fitted = AnomalyDetector(false_alarm_rate=0.01).fit(np.ones((100, 2)))
    assert fitted.predict([[1.0, 1.0], [1.0, 2.0]]).tolist() == [1, -1]


def test_the_columns_of_an_alarm_do_not_depend_on_units() -> None:
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(3000, 3)), columns=["income", "ratio", "age"])
    row = {"income": 0.3, "ratio": 4.5, "age": -0.2}
    found = []
    for scales in ([1.0, 1.0, 1.0], [8000.0, 0.001, 10.0]):
        fitted = AnomalyDetector(Mixture(random_state=0), false_alarm_rate=1e-2).fit(x * scales)
        own = {name: row[name] * scale for name, scale in zip(row, scales, strict=True)}
        alarm = fitted.process_one(own)
        assert alarm is not None
        assert next(iter(alarm.columns)) == "ratio"
        assert alarm.columns["ratio"] == pytest.approx(4.5**2 / 2 - 0.5, rel=0.1)
        assert max(alarm.columns["income"], alarm.columns["age"]) < 0.0
        found.append(alarm.columns)
    assert found[1] == pytest.approx(found[0], abs=1e-6)


def test_what_is_usual_in_a_column_depends_on_the_cells_that_are_there() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 2))
    x[:, 1] = x[:, 0] + 0.01 * x[:, 1]
    found = AnomalyDetector(Mixture(random_state=0), false_alarm_rate=1e-3).fit(x)
    alone = found.explain_one([6.0, np.nan])
    assert alone == {0: pytest.approx(17.5, rel=0.1)}
    together = found.explain_one([1.0, 1.06])
    assert together[0] == pytest.approx(17.5, rel=0.2)
    assert together[1] == pytest.approx(17.5, rel=0.2)


@pytest.mark.parametrize("family", ["gaussian", "auto"])
def test_a_row_that_lacks_columns_is_learned_and_its_columns_are_named(family: str) -> None:
    x = pd.DataFrame(rows(1000), columns=["a", "b", "c"])
    found = AnomalyDetector(Mixture(family, 2, random_state=0), false_alarm_rate=0.01).fit(x)
    row = {"c": -12.0, "b": 0.2}
    score = found.score_one(row)
    why = found.explain_one(row)
    assert [*why] == ["c", "b"]
    alarm = found.process_one(row)
    assert alarm is not None
    assert alarm.score == score
    assert alarm.columns == why
    before = found.estimator_.n_rows_
    assert found.process_one({"b": 0.1, "c": 0.1}) is None
    assert found.estimator_.n_rows_ == before + 1


@pytest.mark.parametrize("as_table", [False, True])
def test_new_columns_of_a_scored_stream_are_refused_or_ignored_aloud(as_table: bool) -> None:
    x = pd.DataFrame(rows(600), columns=["a", "b", "c"])
    row = {"a": 0.0, "b": 0.0, "c": 0.0, "later": 1.0}

    def learn(found: AnomalyDetector) -> None:
        found.partial_fit(pd.DataFrame([row])) if as_table else found.learn_one(row)

    mixture = Mixture(n_components=2, new_columns="learn", random_state=0)
    strict = AnomalyDetector(mixture).partial_fit(x)
    with pytest.raises(InvalidInputError, match=r"\['later'\].* no row is scored yet.*columns="):
        learn(strict)
    assert strict.estimator_.n_rows_ == 600
    ignoring = AnomalyDetector(mixture.set_params(new_columns="ignore")).partial_fit(x)
    with pytest.warns(LearningWarning, match=r"ignored: \['later'\]"):
        learn(ignoring)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learn(ignoring)
    assert ignoring.estimator_.n_rows_ == 602


@pytest.mark.filterwarnings("ignore::mixfold.errors.DegenerateComponentsWarning")
def test_new_columns_are_learned_before_rows_are_scored() -> None:
    x = pd.DataFrame(rows(400), columns=["a", "b", "c"])
    mixture = Mixture(n_components=2, new_columns="learn", random_state=0)
    blocks, single = AnomalyDetector(mixture), AnomalyDetector(mixture)
    blocks.partial_fit(x[["a", "b"]][:100]).partial_fit(x[100:])
    for i, row in enumerate(x.to_dict("records")):
        single.learn_one(row if i >= 100 else {"a": row["a"], "b": row["b"]})
    assert [*blocks.feature_names_in_] == [*single.feature_names_in_] == ["a", "b", "c"]
    assert blocks.score_one(x.iloc[0].to_dict()) == single.score_one(x.iloc[0].to_dict())


def test_the_score_is_that_before_the_row_is_learned() -> None:
    found = detector().partial_fit(rows(2560))
    before = found.score_samples(rows(1, 7))
    alarm = found.process_one(rows(1, 7)[0] + 40.0)
    assert alarm is not None
    assert found.score_one(rows(1, 7)[0]) == -before[0]


def test_extreme_rows_are_not_learned_but_a_new_normal_is() -> None:
    x = rows(20_000)
    anomalies = np.arange(5000, 20_000, 250)
    x[anomalies] += 200.0
    found = detector(1e-3)
    alarms = {alarm.row for alarm in found.process_many(x)}
    assert set(anomalies.tolist()) <= alarms
    assert len(alarms) - len(anomalies) < 50
    assert abs(found.estimator_.means_).max() < 9.0
    forgetting = detector(learner=OnlineEM(batch_size=64, schedule=Constant(0.02)))
    forgetting.partial_fit(rows(5000)).partial_fit(rows(20_000) + 30.0)
    assert not forgetting.predict_one(CENTRES[0] + 30.0)


def test_contamination_is_the_fraction_of_all_rows_of_a_stream() -> None:
    x = rows(20_000)
    x[::50] += 100.0  # 2%
    mixture = Mixture("gaussian", 4, learner=ONLINE, random_state=0)
    found = AnomalyDetector(mixture, contamination=0.02).partial_fit(x)
    assert found.n_alarms_ / found.n_scored_ == pytest.approx(0.02, rel=0.25)


def test_rows_before_the_first_threshold_raise_no_alarm() -> None:
    fresh = detector()
    assert fresh.score_one(CENTRES[0]) == 0.0
    assert not fresh.predict_one(CENTRES[0])
    fresh.partial_fit(rows(300))
    assert fresh.threshold_ == np.inf
    assert (fresh.predict(rows(5) + 100.0) == 1).all()
    assert fresh.n_scored_ == 0


def test_cells_may_be_missing() -> None:
    x = rows(3000)
    x[::5, 1] = np.nan
    one, blocks = detector(), detector()
    assert [a for row in x if (a := one.process_one(row))] == blocks.process_many(x)
    assert one.threshold_ < np.inf
    assert [*one.explain_one([8.0, np.nan, -40.0])] == [2, 0]
    strange = blocks.process_one([8.0, np.nan, -40.0])
    assert strange is not None
    assert set(strange.columns) == {0, 2}


def test_families_without_conditional_distributions_have_alarms_without_columns() -> None:
    x = np.random.default_rng(0).dirichlet([4.0, 5.0, 6.0], size=3000)
    mixture = Mixture("dirichlet", 1, learner="online-em", random_state=0)
    alarms = AnomalyDetector(mixture, false_alarm_rate=0.05).process_many(x[:1500])
    assert alarms
    assert alarms[0].columns == {}


# fits


def test_thresholds_of_fits_to_few_rows_are_those_of_new_rows() -> None:
    new, rates, in_sample = rows(40_000, 99), [], []
    for seed in range(4):
        found = detector(0.02, "auto", 10).fit(rows(400, seed))
        rates.append((found.predict(new) < 0).mean())
        scores = np.concatenate([*learned_scores(found.estimator_, found._open(rows(400, seed)))])
        in_sample.append((-found.score_samples(new) > np.quantile(scores, 0.98)).mean())
    assert np.mean(in_sample) > 0.035  # what the rows of the fit themselves would give
    assert 0.01 < np.mean(rates) < 0.03


def test_contamination_is_exact_in_the_rows_of_a_fit() -> None:
    x = rows(1000)
    for fraction, expected in ((0.037, 37), (0.1, 100), (0.0001, 0)):
        found = AnomalyDetector(Mixture(n_components=3, random_state=0), contamination=fraction)
        assert (found.fit_predict(x) < 0).sum() == found.labels_.sum() == expected
    np.testing.assert_allclose(found.decision_scores_, -found.score_samples(x), rtol=1e-12)
    assert found.offset_ == -found.threshold_
    assert ((found.decision_function(x) < 0) == (found.decision_scores_ > found.threshold_)).all()


def test_a_fit_can_be_continued() -> None:
    found = detector(0.01, "online-em").fit(rows(5000))
    fitted = found.threshold_
    assert found.n_scored_ == 0
    found.partial_fit(rows(20_000, 1))
    assert found.n_alarms_ / found.n_scored_ == pytest.approx(0.01, rel=0.25)
    assert found.threshold_ == pytest.approx(fitted, rel=0.1)


def test_files_tables_and_generators(tmp_path: Path) -> None:
    x = rows(2000)
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    frame.to_csv(tmp_path / "x.csv", index=False)
    table = detector(0.01, "em").fit(frame)
    file = detector(0.01, "em").fit(tmp_path / "x.csv")
    assert file.threshold_ == pytest.approx(table.threshold_, rel=1e-9)
    assert list(file.feature_names_in_) == ["a", "b", "c"]
    assert not hasattr(file, "decision_scores_")
    generated = detector().fit(iter([x[:700], x[700:]]))
    assert generated.threshold_ == detector().partial_fit(x).threshold_


def test_mixed_tables_with_chosen_families(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=2000)
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=2000) + 4 * kind,
            "colour": pd.Categorical(np.where(rng.random(2000) < 0.9, kind, 1 - kind).astype(str)),
        }
    )
    mixture = Mixture("auto", 2, learner=ONLINE, random_state=0)
    found = AnomalyDetector(mixture, false_alarm_rate=0.02).partial_fit(frame)
    assert [choice.column for choice in found.estimator_.chosen_families_] == ["size", "colour"]
    alarm = found.process_one({"size": 30.0, "colour": "0"})
    assert alarm is not None
    assert next(iter(alarm.columns)) == "size"
    with pytest.raises(InvalidInputError, match="colour"):
        found.process_one({"size": 0.0, "colour": "7"})
    fitted = AnomalyDetector(Mixture("auto", 2, random_state=0), contamination=0.05).fit(frame)
    fitted.save(tmp_path / "x.mixfold")
    again = mixfold.load(tmp_path / "x.mixfold")
    assert (again.predict(frame) == fitted.predict(frame)).all()


# files and copies


def test_a_saved_detector_continues_to_the_same_bits(tmp_path: Path) -> None:
    x = rows(4000)
    found = detector().partial_fit(x[:1500])
    for row in x[1500:1555]:  # ends within a block
        found.learn_one(row)
    found.save(tmp_path / "x.mixfold")
    loaded, copied = mixfold.load(tmp_path / "x.mixfold"), pickle.loads(pickle.dumps(found))
    assert repr(loaded) == repr(found)
    alarms = found.process_many(x[1555:])
    assert loaded.process_many(x[1555:]) == copied.process_many(x[1555:]) == alarms
    assert loaded.threshold_ == copied.threshold_ == found.threshold_
    assert loaded.n_alarms_ == found.n_alarms_


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.mixfold"
    detector().partial_fit(rows(1500)).save(path)
    saved = read(path, "model")
    stream = saved.learned.stream
    for bad, why in (
        (replace(stream, in_block=256), "in_block"),
        (replace(stream, n_alarms=-1), "n_alarms"),
        (replace(stream, threshold=replace(stream.threshold, rate=0.0)), "rate"),
        (replace(stream, threshold=replace(stream.threshold, recent=np.zeros(9, np.uint8))), "dig"),
        (replace(stream, scores=np.full(3, np.nan), in_block=3), "scores"),
    ):
        write(path, "model", replace(saved, learned=replace(saved.learned, stream=bad)))
        with pytest.raises(ModelFileError, match=why):
            mixfold.load(path)


# mistakes


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"contamination": 0.1, "false_alarm_rate": 0.1}, "give one of them"),
        ({"contamination": 0.6}, "contamination is 0.6"),
        ({"false_alarm_rate": 0.0}, "false_alarm_rate is 0.0"),
        ({"false_alarm_rate": "often"}, "false_alarm_rate is 'often'"),
        ({"window": 10}, "window is 10"),
        ({"estimator": "gaussian"}, "estimator is a str: a Mixture is needed"),
        ({"estimator": Mixture("gauss")}, "unknown family 'gauss'"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    for learn in ("fit", "partial_fit"):
        with pytest.raises(InvalidInputError, match=message):
            getattr(AnomalyDetector(**settings), learn)(rows(100))
    with pytest.raises(InvalidInputError, match=message):
        AnomalyDetector(**settings).learn_one(CENTRES[0])


def test_after_an_error_the_detector_is_as_before() -> None:
    counts = np.random.default_rng(0).poisson(3.0, size=(2000, 1)).astype(float)
    found = AnomalyDetector(Mixture("poisson", 1, learner=ONLINE)).partial_fit(counts)
    before = found.threshold_, found.n_scored_, found.estimator_.n_rows_
    for bad in ([[3.0], [-1.0]], [[np.inf]], [[1.0, 2.0]]):
        with pytest.raises(ValueError):
            found.partial_fit(bad)
        with pytest.raises(ValueError):
            found.process_one(np.array(bad[-1]))
    assert (found.threshold_, found.n_scored_, found.estimator_.n_rows_) == before


def test_messages_number_the_rows_of_the_user() -> None:
    x = rows(2000)
    found = detector().partial_fit(x)
    x[1234, 1] = np.inf
    with pytest.raises(InvalidInputError, match=r"row 1,?235"):
        found.partial_fit(x)


def test_without_a_fit_errors_say_so() -> None:
    for name in ("threshold_", "estimator_", "n_features_in_", "labels_"):
        with pytest.raises(AttributeError, match=name):
            getattr(AnomalyDetector(), name)
    with pytest.raises(AttributeError, match="call fit first"):
        _ = AnomalyDetector().threshold_
    for call in ("predict", "score_samples", "explain_one"):
        with pytest.raises(NotFittedError):
            getattr(AnomalyDetector(), call)(rows(3))


def test_the_extra_is_named_if_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(MissingExtraError, match=r"mixfold\[alarms\]"):
        detector().fit(rows(100))


def test_parameters_of_the_mixture_can_be_set() -> None:
    found = detector().set_params(estimator__n_components=2, estimator__family=Gaussian("diag"))
    assert clone(found).fit(rows(500)).estimator_.n_components_ == 2
    named = Product({"a": Gaussian(), "n": Poisson()})
    frame = pd.DataFrame({"a": rows(600)[:, 0], "n": np.arange(600) % 7, "other": 1.0})
    chosen = AnomalyDetector(Mixture(named, 2, random_state=0)).fit(frame)
    assert list(chosen.feature_names_in_) == ["a", "n"]
    assert chosen.partial_fit(frame).predict(frame).shape == (600,)
