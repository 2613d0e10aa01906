"""Rows, passes and times that the command line tells, and rows that messages name."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mixfold
from mixfold import EM, Auto, DriftAware, Mixture, OnlineEM
from mixfold.cli import _bar, _trial
from mixfold.cli._bar import Budget, Report, Watch, budget_of
from mixfold.cli.main import main
from mixfold.errors import InvalidInputError, SourceError
from mixfold.fitting.fit import Fit
from mixfold.fitting.history import no_history


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def said(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    assert main(command) == 0
    return capsys.readouterr().out


# rows and passes


def test_rows_and_passes_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    learner = ("--learner", "em", "-O", "tol=0", "--max-iter", "3")
    out = said(capsys, "fit", "@faithful", "-k", "2", *learner)
    assert ", 272 rows, 3 passes, " in out
    assert "816" not in out
    out = said(capsys, "inspect", "model.mixfold")
    assert [line.split() for line in out.splitlines() if line[:4] in ("rows", "pass")] == [
        ["rows", "272"],
        ["passes", "3"],
    ]
    assert mixfold.load("model.mixfold").n_seen_ == 816
    out = said(capsys, "fit", "@faithful", "-k", "2", "--learner", "OnlineEM", "--n-init", "2")
    assert ", best of 2 starts, 272 rows, 1 pass, " in out


def test_merged_models_count_each_row_once(capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "fit", "@faithful", "-k", "2", "-o", "start")
    rows = mixfold.datasets.load_faithful()
    for name, part in {"a": rows[:100], "b": rows[100:]}.items():
        np.save(f"{name}.npy", part)
        learner = ("--learner", "online-em", "-O", "max_iter=2", "--init", "start")
        said(capsys, "fit", f"{name}.npy", "-k", "2", *learner, "-o", name)
    assert "2 models of 272 rows" in said(capsys, "merge", "a", "b", "-o", "both")


def test_an_interrupt_tells_passes_and_rows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    title = Watch._title

    def stop(self: Watch, fit: Fit) -> str:
        if fit.passes == 2 and fit.row:
            raise KeyboardInterrupt
        return title(self, fit)

    monkeypatch.setattr(Watch, "_title", stop)
    assert main(["fit", "@faithful", "-k", "2", "--learner", "em", "-O", "tol=0"]) == 130
    err = capsys.readouterr().err
    assert "interrupted in pass 3; the model learned from 2 passes over 272 rows and 272" in err


def test_compare_includes_auto(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_trial, "in_another_process", _trial.run)
    options = ("-O", "EM.max_iter=2", "-O", "MiniBatchEM.max_iter=1", "-O", "Auto.max_iter=1")
    out = said(capsys, "compare", "@faithful", "-k", "2", *options)
    table = [line.split()[0] for line in out.splitlines() if line.strip().endswith("MB")]
    assert table == ["auto", "em", "mini-batch-em", "online-em"]


# progress


def test_the_budget_is_the_smaller_one() -> None:
    assert budget_of(EM(), None) == Budget(EM().max_iter, early=True)
    assert budget_of(EM(), 3) == Budget(3, early=True)
    assert budget_of(EM(tol=0.0, max_iter=5), 9) == Budget(5, early=False)
    assert budget_of(OnlineEM(max_iter=2), None) == Budget(2, early=False)
    assert budget_of(DriftAware(OnlineEM(max_iter=2)), None) == Budget(2, early=False)
    assert budget_of(Auto(), None).early
    assert budget_of(object(), None) == Budget(None, early=False)


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Report]]:
    """What is displayed of a fit in which every update takes a second."""
    found: list[Report] = []
    clock = iter(np.arange(0.0, 1e4, 1.0))
    monkeypatch.setattr(_bar, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    shown: Any = SimpleNamespace(show=found.append, close=lambda: None)
    monkeypatch.setattr(_bar, "display", lambda title, asked: shown)
    yield found
    assert not any("0:00" in report.left for report in found)


def at(passes: int, row: int, seen: int, start: int = 0, length: int = 0) -> Fit:
    return Fit(None, no_history(), start, passes, row, seen, length=length)


def test_a_time_left_is_of_the_whole_fit(reports: list[Report]) -> None:
    watch = Watch(True, Budget(4))
    for i in range(1, 40):  # a hundred rows per second, 1000 in a pass
        watch.update(at(i // 10, 100 * (i % 10), 100 * i), 1000)
    assert reports[0].left == ""  # nothing to judge by yet
    assert reports[0].title == "pass 1 of 4"
    assert reports[0].counted == "100 of 1k rows"
    assert reports[20].title == "pass 3 of 4"
    assert reports[20].share == pytest.approx(21 / 40)
    assert reports[20].left == "0:20 left"
    seconds = [int(r.left[0]) * 60 + int(r.left[2:4]) for r in reports[5:-1]]
    assert all(late < soon for soon, late in pairwise(seconds))
    assert reports[-1].share == pytest.approx(39 / 40)


def test_a_learner_that_may_stop_early_has_a_most(reports: list[Report]) -> None:
    watch = Watch(True, Budget(10, early=True), starts=2)
    for i in range(1, 5):
        watch.update(at(i, 0, 300 * i, start=1, length=300), None)
    assert reports[-1].title == "start 2 of 2, pass 5 of at most 10"
    assert reports[-1].left.startswith("at most 0:")
    assert reports[-1].share == pytest.approx(14 / 20)


def test_without_a_budget_no_time_is_promised(reports: list[Report]) -> None:
    watch = Watch(True, Budget(None))
    for i in range(1, 5):
        watch.update(at(0, 100 * i, 100 * i), 400)
    assert {(r.title, r.left, r.share) for r in reports} == {("pass 1", "", None)}


def test_the_last_report_of_a_start_is_about_its_last_pass(reports: list[Report]) -> None:
    watch = Watch(True, Budget(2))
    watch.update(at(2, 0, 200, length=100), 100)
    assert (reports[-1].title, reports[-1].share) == ("pass 2 of 2", 1.0)


# places in the data

ROWS = np.random.default_rng(0).normal(size=(30_000, 2))
HOLE = ROWS.copy()
HOLE[29_990, 1] = np.nan
NAMED, PLAIN = r"row 29991 \(counted from 1\), column 'b' is NaN", r"row 29991, column 2 \(both"


@pytest.mark.parametrize("method", ["fit", "partial_fit", "predict", "score_samples"])
def test_a_missing_value_is_found_by_row_and_name(method: str) -> None:
    model = Mixture(n_components=2, learner="em", max_iter=1, missing="error", random_state=0)
    with pytest.raises(InvalidInputError, match=PLAIN):
        getattr(model.fit(ROWS[:100]), method)(HOLE)
    frame = pd.DataFrame(HOLE, columns=["a", "b"])
    with pytest.raises(InvalidInputError, match=NAMED):
        getattr(model.fit(frame[:100]), method)(frame)


def test_a_missing_value_in_files_is_found_by_row_and_name() -> None:
    np.save("x.npy", HOLE)  # more rows than a start is drawn from
    with pytest.raises(InvalidInputError, match=PLAIN):
        Mixture(n_components=2, missing="error").fit("x.npy")
    Path("x.csv").write_text("a,b\n1,2\n3,\n5,6\n")
    with pytest.raises(SourceError, match=r"'b' has a missing value in row 2 \(counted from 1\)"):
        Mixture(n_components=2, missing="error").fit("x.csv")
