"""A local Spark session for the tests that need one.

Where there is no Java, they are skipped, and the last line of the test run says so.
"""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from mixfold.core.errors import ClusterError
from mixfold.engines._spark_session import check_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNTESTED = "Spark was not tested"
MASTER = "local[2,3]"
"""Two threads; tasks are tried three times."""

SETTINGS = {
    "spark.driver.memory": "1g",
    # less compilation, for jobs of a few rows
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
}


@contextmanager
def unclosed_threads() -> Iterator[None]:
    """Let pass that Spark's CrossValidator does not close its threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


@contextmanager
def local_session() -> Iterator[SparkSession]:
    """A running session; the test is skipped where there is no Java."""
    try:
        check_java()
    except ClusterError as error:
        pytest.skip(f"{UNTESTED}: {error}")
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
