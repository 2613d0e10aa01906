"""A run of tests without a browser says so in its last line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from browser import UNTESTED

TESTS = Path(__file__).parents[1]
ONE_TEST = """
import browser

def test_of_a_page(monkeypatch):
    monkeypatch.setattr(browser, "NAMES", ("no-such-browser",))
    with browser.launched():
        raise AssertionError("there is no browser")

def test_of_something_else(): pass
"""


@pytest.mark.parametrize("workers", ["0", "1"])
def test_the_last_line_says_that_pages_were_not_tested(tmp_path: Path, workers: str) -> None:
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    (tmp_path / "test_pages.py").write_text(ONE_TEST)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", workers, "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TESTS / "helpers")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.rstrip().splitlines()[-1]
    assert last == f"{UNTESTED}: 1 test was skipped; install chromium to run all"
