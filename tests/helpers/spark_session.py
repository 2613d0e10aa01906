"""A local Spark session for the tests that need one.

Where there is no Java, they are skipped, and the last line of the test run says so.
"""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNTESTED = "Spark was not tested"
MASTER = "local[2,3]"
"""Two threads; tasks are tried three times."""

SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
}


def has_java() -> bool:
    """Whether there is Java, as Spark looks for it."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java") is not None if not home else (Path(home) / "bin/java").exists()


@contextmanager
def local_session() -> Iterator[SparkSession]:
    """A running session; the test is skipped where there is no Java."""
    if not has_java():
        pytest.skip(f"{UNTESTED}: there is no java on the PATH")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName("tests").master(MASTER)
    for name, setting in SETTINGS.items():
        builder = builder.config(name, setting)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()
