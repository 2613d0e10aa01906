"""A run of tests without Java says so in its last line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from spark_session import UNTESTED

TESTS = Path(__file__).parents[1]
ONE_TEST = """
from spark_session import local_session

def test_of_spark(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with local_session():
        raise AssertionError("there is no Java")

def test_of_something_else(): pass
"""


def test_the_last_line_says_that_spark_was_not_tested(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    (tmp_path / "test_spark.py").write_text(ONE_TEST)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TESTS / "helpers")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.rstrip().splitlines()[-1]
    assert last == f"{UNTESTED}: 1 test was skipped; install Java 17 or later to run all"
