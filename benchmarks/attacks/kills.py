"""SIGKILL and SIGTERM at random moments of a fit on the command line that keeps a checkpoint."""

from __future__ import annotations

import io
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np

import mixfold
from attacks import Attack
from mixfold.cli.main import main
from mixfold.fitting.atomic_files import SUFFIX

LONGEST = 0.6  # seconds from the first checkpoint to the kill
PATIENCE = 60.0

# a fit that keeps its checkpoint at every chance
SCRIPT = """
import sys
from mixfold.cli.main import main
from mixfold.fitting.checkpoint import Checkpoint

keep = Checkpoint.keep

def keep_now(self, fit):
    self.seconds = 0.0
    keep(self, fit)

Checkpoint.keep = keep_now
sys.exit(main())
"""


def attacks(rng: np.random.Generator, folder: Path) -> Iterator[Attack]:
    """Kills after random times, at first before there is a checkpoint, then after."""
    data = folder / "kills.npy"
    np.save(data, rng.normal(size=(3000, 3)) + 4.0 * rng.integers(2, size=(3000, 1)))
    whole = folder / "whole.mixfold"
    _run(_fit(data, whole))
    number = 0
    while True:
        kind = signal.Signals(rng.choice([signal.SIGKILL, signal.SIGTERM]))
        early, delay = bool(rng.random() < 0.2), float(rng.uniform(0.0, LONGEST))
        place = folder / f"kills-{number}"
        number += 1
        yield Attack(
            f"{kind.name} {delay:.2f} s after the {'start' if early else 'first checkpoint'}",
            lambda p=place, k=kind, e=early, d=delay: attack(data, whole, p, k, e, d),  # type: ignore[misc]
        )


def attack(
    data: Path, whole: Path, place: Path, kind: signal.Signals, early: bool, delay: float
) -> None:
    """Kill a fit, look at what it has left, and go on with it to the same bits."""
    place.mkdir()
    output, checkpoint = place / "model.mixfold", place / "fit.checkpoint"
    keep = ["--checkpoint", str(checkpoint)]
    child = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *_fit(data, output), *keep],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    began = time.monotonic()
    while not early and not checkpoint.exists() and child.poll() is None:
        assert time.monotonic() - began < PATIENCE, "the fit keeps no checkpoint"
        time.sleep(0.005)
    time.sleep(delay)
    child.send_signal(kind)
    _, said = child.communicate(timeout=PATIENCE)
    _check_stopped(child.returncode, kind, said, output, early)
    _run([*_fit(data, output), *keep, "--resume"])
    _check_same(output, whole)
    left = [path.name for path in place.iterdir() if path.name.endswith(SUFFIX)]
    assert not left, f"left over: {left}"
    shutil.rmtree(place)


def _fit(data: Path, output: Path) -> list[str]:
    learner = ["--learner", "em", "-O", "tol=0", "-O", "max_iter=150"]
    return ["fit", str(data), "-k", "4", "--threads", "1", *learner, "-o", str(output)]


def _run(arguments: list[str]) -> None:
    err = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(err):
        code = main(arguments)
    assert code == 0, f"exit code {code}: {err.getvalue()}"


def _check_stopped(code: int, kind: signal.Signals, said: str, output: Path, early: bool) -> None:
    assert "Traceback" not in said, said
    if kind is signal.SIGTERM and not early:
        # 0 if the work was done when the signal came
        assert code in (0, 143), f"exit code {code}: {said}"
        assert output.is_file(), f"nothing is saved: {said}"
    if output.is_file():
        assert mixfold.load(output).n_seen_ > 0


def _check_same(one: Path, other: Path) -> None:
    a, b = mixfold.load(one), mixfold.load(other)
    for name in ("weights_", "means_", "covariances_"):
        assert (getattr(a, name) == getattr(b, name)).all(), f"{name} differs after resuming"
    assert a.n_seen_ == b.n_seen_, f"{a.n_seen_} rows seen, not {b.n_seen_}"
