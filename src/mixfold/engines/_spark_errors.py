"""Errors of Spark, and their remedies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from mixfold.core.errors import ClusterError, MixfoldError

SHIP = (
    "install mixfold on every executor, or ship an environment that has it: venv-pack -o "
    "env.tar.gz, then spark.archives=env.tar.gz#env and PYSPARK_PYTHON=env/bin/python"
)
STOPPED = "the Spark session is stopped: create one with SparkSession.builder.getOrCreate()"
SAME_PYTHON = (
    "set PYSPARK_PYTHON on the executors to the Python of the driver, or ship its environment with "
    "spark.archives"
)
MEMORY = (
    "executors do not have enough memory: raise spark.executor.memory and "
    "spark.executor.memoryOverhead, or repartition the DataFrame into smaller partitions"
)
REMEDIES = {
    "No module named 'mixfold": f"executors do not have mixfold: {SHIP}",
    "No module named 'pyarrow": f"executors do not have pyarrow, which mixfold needs there: {SHIP}",
    "No module named ": f"executors lack a package that mixfold needs: {SHIP}",
    "PYTHON_VERSION_MISMATCH": f"executors have another version of Python: {SAME_PYTHON}",
    "stopped SparkContext": STOPPED,
    "SparkContext was shut down": STOPPED,
    "SESSION_OR_CONTEXT_NOT_EXISTS": STOPPED,
    "NO_ACTIVE_SESSION": STOPPED,
    "cleanupQueryJobs": STOPPED,
    "object has no attribute 'sc'": STOPPED,
    "INVALID_HANDLE.SESSION": STOPPED,
    "OutOfMemoryError": MEMORY,
    "ExecutorLostFailure": MEMORY,
    "StatusCode.UNAVAILABLE": (
        "the Spark Connect server does not answer: start it, or correct its address"
    ),
}
"""What can be done, by a part of an error's message."""

RAISED = re.compile(r"(?!org\.|java\.)[\w.]+(Error|Exception): ")


def remedy(error: BaseException) -> str | None:
    """The remedy for an error of Spark; None where it is not known."""
    text = f"{type(error).__name__}: {error}"
    return next((REMEDIES[part] for part in REMEDIES if part in text), None)


@contextmanager
def on_spark() -> Iterator[None]:
    """Convert errors of Spark to `ClusterError`; those of mixfold are kept."""
    try:
        yield
    except MixfoldError:
        raise
    except Exception as error:
        known = remedy(error)
        raise ClusterError(known or f"Spark cannot do the work: {_essence(error)}") from error


def _essence(error: BaseException) -> str:
    """The error of an executor's Python, or else the first line of the message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = (line for line in lines if RAISED.match(line))
    return next(raised, lines[0] if lines else type(error).__name__)
