"""Spark sessions: the one at an address, and Java, which a new one needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mixfold.core.errors import ClusterError, MissingExtraError
from mixfold.engines._spark_errors import on_spark

OLDEST_JAVA = 17
INSTALL = (
    f"install Java {OLDEST_JAVA} or later (on Debian: apt-get install openjdk-17-jre-headless) and "
    "set JAVA_HOME if it is not on the PATH"
)
CONNECT = "sc://"
UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"  # else a task waits 40 ms for a packet


def pyspark() -> Any:
    """The library, or an error that says how to get it."""
    try:
        import pyspark.sql
    except ImportError:
        raise MissingExtraError("pyspark", "spark", "learning on Spark") from None
    return pyspark


def is_session(thing: object) -> bool:
    """Whether `thing` is a Spark session, without importing pyspark."""
    return _is_of_spark(thing, "SparkSession")


def is_dataframe(thing: object) -> bool:
    """Whether `thing` is a Spark DataFrame, without importing pyspark."""
    return _is_of_spark(thing, "DataFrame")


def n_slots(session: Any) -> int | None:
    """The number of tasks that run at a time; None with Spark Connect, which does not say."""
    if type(session).__module__.startswith("pyspark.sql.connect."):
        return None
    return int(session.sparkContext.defaultParallelism)


def _is_of_spark(thing: object, name: str) -> bool:
    kinds = (kind for kind in type(thing).__mro__ if kind.__name__ == name)
    return any(kind.__module__.startswith("pyspark.sql.") for kind in kinds)


@contextmanager
def session_at(cluster: Any) -> Iterator[Any]:
    """The given session, the one that there is, or a new one, which is stopped at the end."""
    if is_session(cluster):
        yield cluster
        return
    address = None if cluster == "spark" else str(cluster)
    known = active()
    if known is not None:
        _check_same(known, address)
        yield known
        return
    made = _new(address)
    try:
        yield made
    finally:
        made.stop()


def active() -> Any:
    """The session of this process, also of another thread; None if there is none."""
    pyspark()
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def _check_same(session: Any, address: str | None) -> None:
    """Refuse an address that is not the one of the session that there is."""
    if address is None or address.startswith(CONNECT):
        return
    with on_spark():
        known = session.conf.get("spark.master", None)
    if known != address:
        raise ClusterError(
            f"cluster is {address!r}, but there is a Spark session at {known!r}: use "
            "cluster='spark' for that one, or stop it first"
        )


def _new(address: str | None) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("mixfold").config(UNIX_SOCKETS, "true")
    if address is not None and address.startswith(CONNECT):
        try:
            return builder.remote(address).getOrCreate()
        except ImportError as error:
            raise ClusterError(
                f"cluster is {address!r}, and Spark Connect needs further packages ({error}): "
                "pip install 'pyspark[connect]'"
            ) from None
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with on_spark():
        return (builder if address is None else builder.master(address)).getOrCreate()


def check_java() -> None:
    """Refuse to start Spark without Java, or with one that is too old for it."""
    home = os.environ.get("JAVA_HOME")
    path = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if path is None or not Path(path).exists():
        place = f"JAVA_HOME is {home!r}, where there is none" if home else "there is none here"
        raise ClusterError(f"Spark needs Java, and {place}: {INSTALL}")
    done = subprocess.run([path, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    if found is not None and int(found[1]) < OLDEST_JAVA:
        raise ClusterError(f"Spark needs Java {OLDEST_JAVA}, and {path} is {found[1]}: {INSTALL}")
