"""A process that was started with SIGINT ignored, as in the background of a script, ignores it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import mixfold
from mixfold.fitting.fit import Fit

SCRIPT = Path(sys.executable).parent / "mixfold"


@pytest.fixture
def ignored() -> Iterator[None]:
    """SIGINT is ignored here and, since it is inherited, in child processes."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


def pass_number(line: str) -> int:
    return int(line.removeprefix("mixfold: pass ").split()[0].rstrip(",:/"))


if sys.platform != "win32":  # where processes are not stopped by signals

    @pytest.mark.usefixtures("ignored")
    def test_a_fit_in_the_background_goes_on_until_it_is_terminated(tmp_path: Path) -> None:
        x = np.random.default_rng(0).normal(size=(600, 2))
        np.save(tmp_path / "x.npy", x)
        learner = ("--learner", "em", "-O", "tol=0", "-O", "max_iter=1000000")
        process = subprocess.Popen(
            [SCRIPT, "fit", "x.npy", "-k", "2", *learner, "--progress", "-o", "m.mixfold"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        first = pass_number(process.stderr.readline())
        process.send_signal(signal.SIGINT)
        assert pass_number(process.stderr.readline()) > first
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 143
        assert "is saved in m.mixfold" in err
        assert mixfold.load(tmp_path / "m.mixfold").n_seen_ >= 600


class Interrupts:
    """Sends SIGINT at every update."""

    def __init__(self) -> None:
        self.sent = 0

    def update(self, fit: Fit, length: int | None) -> None:
        signal.raise_signal(signal.SIGINT)
        self.sent += 1

    def close(self) -> None:
        return None


@pytest.mark.usefixtures("ignored")
def test_a_fit_in_python_leaves_ignored_interrupts_ignored() -> None:
    x = np.random.default_rng(0).normal(size=(300, 2))
    alone = mixfold.Mixture(n_components=2, learner="em", random_state=0).fit(x)
    model = mixfold.Mixture(n_components=2, learner="em", random_state=0)
    model.progress = watcher = Interrupts()
    model.fit(x)
    assert watcher.sent > 1
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert (model.means_ == alone.means_).all()
