"""Commands that are interrupted."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

import mixfold
from command_line import SCRIPT, Run

# small data on which a component may be degenerate, which is tested elsewhere
pytestmark = pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")


# interrupts


def start_fit(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    """A fit in another process that has learned something already."""
    # a child of a shell's background job would inherit that Ctrl-C is ignored
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [SCRIPT, "fit", "rows.parquet", "-k", "2", "--learner", "em", "--progress", *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    signal.signal(signal.SIGINT, before)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("mixfold: pass 1")
    return process


def test_an_interrupt_keeps_what_was_learned_and_the_fit_resumes(
    run: Run, rows: str, tmp_path: Path
) -> None:
    learner = ("-O", "tol=0", "-O", "max_iter=1000")
    keep = ("--checkpoint", "fit.checkpoint")
    process = start_fit(tmp_path, *learner, *keep, "-o", "stopped.mixfold")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    said = [line for line in err.splitlines() if "interrupted" in line]
    assert len(said) == 1
    assert "is saved in stopped.mixfold" in said[0]
    assert "Traceback" not in err
    stopped = mixfold.load("stopped.mixfold")
    assert 0 < stopped.n_seen_ < 1000 * 600

    fit = ("fit", rows, "-k", "2", "--learner", "em", *learner)
    assert run(*fit, *keep, "--resume", "-o", "resumed.mixfold")[0] == 0
    assert run(*fit, "-o", "whole.mixfold")[0] == 0
    resumed, whole = mixfold.load("resumed.mixfold"), mixfold.load("whole.mixfold")
    assert resumed.n_seen_ == whole.n_seen_ == 1000 * 600
    assert (resumed.means_ == whole.means_).all()
    assert (resumed.covariances_ == whole.covariances_).all()


def test_an_interrupt_before_learning_saves_nothing(
    run: Run, rows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mixfold.sources.parquet.Parquet.blocks", interrupted)
    code, out, err = run("fit", rows, "-k", "2")
    assert (code, out) == (130, "")
    assert err == "mixfold: interrupted before anything was learned; nothing is saved\n"
    assert not Path("model.mixfold").exists()


def test_an_interrupted_score_leaves_the_old_file(
    run: Run, rows: str, model: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*arguments: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    Path("scores.csv").write_text("old")
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr("mixfold.cli._output.ArrowWriter.close", interrupted)
    command = ("score", model, rows, "-o", "scores.csv", "--force")
    assert run(*command) == (130, "", "mixfold: interrupted\n")
    assert Path("scores.csv").read_text() == "old"
    assert sorted(tmp_path.iterdir()) == before
