"""Detectors of anomalies on the command line."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.csv
import pytest

import mixfold
from command_line import Run
from mixfold import AnomalyDetector

FIT = ("-k", "2", "--columns", "length,wait", "--false-alarm-rate", "0.02")


@pytest.fixture
def detector(run: Run, rows: str) -> str:
    code, out, err = run("fit", rows, *FIT, "-o", "a.mixfold")
    assert (code, err) == (0, "")
    assert "(2% of normal rows)" in out
    return "a.mixfold"


def test_fit_saves_the_detector_that_the_estimator_would_fit(
    run: Run, rows: str, detector: str
) -> None:
    mixture = mixfold.Mixture(n_components=2, columns=["length", "wait"], random_state=0)
    expected = AnomalyDetector(mixture, false_alarm_rate=0.02).fit(rows)
    found = mixfold.load(detector)
    assert found.threshold_ == expected.threshold_
    assert found.rate_ == 0.02
    assert (found.estimator_.means_ == expected.estimator_.means_).all()
    code, out, err = run("fit", rows, *FIT, "-o", "b.mixfold", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["threshold"] == expected.offset_


def test_score_tells_the_rows_that_raise_alarms(run: Run, rows: str, detector: str) -> None:
    code, out, err = run("score", detector, rows, "-o", "scores.csv")
    assert (code, err) == (0, "")
    alarms = pyarrow.csv.read_csv("scores.csv")["alarm"].to_numpy()
    expected = mixfold.load(detector).predict(rows) == -1
    assert (alarms == expected).all()
    assert f"{expected.sum()} alarms below log-density" in out
    code, out, err = run("score", detector, rows, "-o", "scores.npy", "--json")
    assert json.loads(out)["alarms"] == expected.sum()
    assert (np.load("scores.npy")[:, 1] == expected).all()


def test_other_commands_read_the_detector_as_its_mixture(
    run: Run, rows: str, detector: str
) -> None:
    offset = mixfold.load(detector).offset_
    code, out, err = run("inspect", detector)
    assert (code, err) == (0, "")
    assert f"below log-density {offset:.6g} (2% of normal rows)" in out
    record = json.loads(run("inspect", detector, "--json")[1])
    assert (record["threshold"], record["false_alarm_rate"]) == (offset, 0.02)
    assert run("sample", detector, "-n", "5", "-o", "drawn.csv")[0] == 0
    assert run("fit", rows, *FIT, "--init", detector, "-o", "b.mixfold")[0] == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--false-alarm-rate", "0.7"), "false_alarm_rate is 0.7"),
        (("--false-alarm-rate", "0"), "false_alarm_rate is 0.0"),
        (("--false-alarm-rate", "0.1", "--weights", "w"), "leave one of them out"),
    ],
)
def test_what_cannot_be_promised_is_refused(
    run: Run, rows: str, given: tuple[str, ...], message: str
) -> None:
    code, out, err = run("fit", rows, "-k", "2", *given)
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())
