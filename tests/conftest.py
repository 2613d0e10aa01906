"""Settings for all tests; what libraries read when they are imported is set before that."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

import browser
import spark_session

os.environ.setdefault("SCIPY_ARRAY_API", "1")

# data are small: threads of linear algebra would spend more time waiting than working, and tests
# run in several processes; read when NumPy is imported, and by the processes that tests start
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# without a GPU its kernels run in an interpreter, which must be asked for before they are read
if not Path("/dev/nvidia0").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# they hold no doctests, and cannot be imported under one name
collect_ignore_glob = ["conftest.py", "*/conftest.py"]


# what is not tested, and what to install so that it is
NEEDED = {browser.UNTESTED: "chromium", spark_session.UNTESTED: "Java 17 or later"}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """Say in the last lines of the run, below the counts, if there was no browser or no Java."""
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:  # in a worker
        return
    skipped = reporter.stats.get("skipped", [])
    for untested, needed in NEEDED.items():
        n = sum(untested in str(report.longrepr) for report in skipped)
        if n:
            tests = "1 test was" if n == 1 else f"{n} tests were"
            reporter.write_line(f"{untested}: {tests} skipped; install {needed} to run all")
