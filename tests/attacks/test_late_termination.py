"""SIGTERM that comes when a command has ended, but its process has not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# the signal comes while the interpreter shuts down
PROGRAM = """
import atexit, signal, sys
from mixfold.cli.main import main
atexit.register(lambda: signal.raise_signal(signal.SIGTERM))
sys.exit(main())
"""


@pytest.mark.parametrize(("file", "code"), [("@faithful", 0), ("missing.csv", 2)])
def test_the_exit_code_is_the_commands(tmp_path: Path, file: str, code: int) -> None:
    command = ["fit", file, "-k", "2", "-o", str(tmp_path / "model.mixfold")]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert (tmp_path / "model.mixfold").exists() == (code == 0)
