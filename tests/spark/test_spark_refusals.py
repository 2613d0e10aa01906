"""What goes wrong with Spark is said, with a remedy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cluster_fits import CENTRES, FRAME, NAMES, mixture
from mixfold import LinearMixedModel, Mixture
from mixfold.core.errors import (
    ClusterError,
    InvalidInputError,
    MissingExtraError,
    MissingValueError,
    SourceError,
)
from mixfold.core.value import digest
from mixfold.engines import _spark_session
from mixfold.engines._spark_errors import on_spark
from mixfold.families.gaussian import Gaussian

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def untouched(model: Any, error: type[Exception], words: str, *data: Any, **more: Any) -> None:
    """The call is refused with these words, and the model is as it was."""
    before = digest(model._learned) if hasattr(model, "_learned") else None
    with pytest.raises(error, match=words):
        model.fit(*data, **more)
    assert (digest(model._learned) if hasattr(model, "_learned") else None) == before


def test_rows_and_columns_that_cannot_be_learned(rows: Any) -> None:
    from pyspark.ml.feature import VectorAssembler

    model = mixture().fit(FRAME)
    untouched(model, InvalidInputError, "no rows", rows.where("a > 1e9"))
    untouched(mixture(columns=["a", "z"]), SourceError, "no column 'z'; its columns are a, b", rows)
    untouched(model, SourceError, "no column 'w'", rows, sample_weight="w")
    untouched(model, SourceError, "'b' is string, not numeric", rows.selectExpr("a", "'x' as b"))
    both = VectorAssembler(inputCols=NAMES, outputCol="v").transform(rows)
    untouched(model, InvalidInputError, r"column 'v' .* holds vectors.*columns=\['v'\]", both)
    infinite = rows.selectExpr("a", "if(b > 9, double('Infinity'), b) as b")
    start = mixture(init=CENTRES)
    start.learner = "em"
    untouched(start, InvalidInputError, r"row \d+ .*'b' is infinity", infinite)
    gaps = rows.selectExpr("a", "if(b > 9, null, b) as b")
    strict = mixture(missing="error")
    untouched(strict, SourceError, r"partition \d: .*'b' has a missing value", gaps)
    with pytest.raises(InvalidInputError, match=r"X\.toPandas\(\) if it fits.*write\.parquet"):
        LinearMixedModel("a ~ 1", group="b").fit(rows)
    with pytest.raises(InvalidInputError, match="whose rows are with workers"):
        model.fit(rows, labels="b")
    assert issubclass(MissingValueError, InvalidInputError)


def test_partitions_that_differ_whenever_they_are_computed(rows: Any) -> None:
    from mixfold.engines._spark_frame import merged

    nothing = rows.selectExpr("int(a) as number", "null as state", "null as error").limit(0)
    with pytest.raises(ClusterError, match=r"0 partitions of 3.*persist\(\)"):
        merged(nothing, 3, list)


def test_executors_without_mixfold(spark: SparkSession, rows: Any, tmp_path: Path) -> None:
    """Their Python does not find it, not even where it is installed for development."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Finder:\n"
        "    @staticmethod\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name == 'mixfold':\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Finder)\n"
    )
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}:$PYTHONPATH exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    before, spark.sparkContext.pythonExec = spark.sparkContext.pythonExec, str(python)
    try:
        with pytest.raises(ClusterError, match=r"do not have mixfold.*spark\.archives"):
            mixture().fit(rows)
    finally:
        spark.sparkContext.pythonExec = before


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ("Cannot call methods on a stopped SparkContext", "create one with SparkSession"),
        ("java.lang.OutOfMemoryError: Java heap space", "raise spark.executor.memory"),
        ("[PYTHON_VERSION_MISMATCH] 3.11 and 3.12", "set PYSPARK_PYTHON"),
        ("No module named 'pyarrow'", "do not have pyarrow"),
        (
            "in a worker\nTraceback\n  x\nKeyError: 'a'\n",
            "^Spark cannot do the work: KeyError: 'a'$",
        ),
        ("the disk is gone\nat java.lang.Thread", "^Spark cannot do the work: the disk is gone$"),
    ],
)
def test_errors_of_spark_have_remedies(message: str, remedy: str) -> None:
    with pytest.raises(ClusterError, match=remedy), on_spark():
        raise RuntimeError(message)


# starting a session


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_spark_session, "active", lambda: None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ClusterError, match=r"JAVA_HOME is .*: install Java 17 or later"):
        mixture(cluster="spark").fit(str(saved(tmp_path)))
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match="needs Java, and there is none here: install Java 17"):
        mixture(cluster="spark://127.0.0.1:7077").fit(str(saved(tmp_path)))


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.22"])
def test_java_that_is_too_old(
    version: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setattr(_spark_session, "active", lambda: None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    major = version.removeprefix("1.").partition(".")[0]
    with pytest.raises(ClusterError, match=f"needs Java 17, and .*bin/java is {major}: install"):
        mixture(cluster="spark").fit(str(saved(tmp_path)))


def test_no_pyspark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'mixfold\[spark\]'"):
        mixture(cluster="spark").fit(str(saved(tmp_path)))
    for name in [name for name in sys.modules if name.startswith("mixfold.spark")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark.ml", None)
    with pytest.raises(MissingExtraError, match=r"mixfold\.spark needs pyspark"):
        __import__("mixfold.spark")


def test_another_session(spark: SparkSession, tmp_path: Path) -> None:
    words = r"there is a Spark session at 'local\[2,3\]': use cluster='spark'"
    with pytest.raises(ClusterError, match=words):
        mixture(cluster="spark://127.0.0.1:7077").fit(str(saved(tmp_path)))


def test_rows_in_memory_and_rows_of_spark_elsewhere(rows: Any) -> None:
    with pytest.raises(InvalidInputError, match="cluster is 'spark', but workers cannot read"):
        mixture(cluster="spark").fit(FRAME.to_numpy())
    with pytest.raises(InvalidInputError, match=r"'local', the address of a Dask.*'spark'"):
        mixture(cluster=7).fit(FRAME.to_numpy())
    with pytest.raises(InvalidInputError, match="cluster and engine cannot be combined"):
        Mixture(Gaussian(), engine="torch:cpu").fit(rows)


def saved(folder: Path) -> Path:
    path = folder / "x.csv"
    FRAME[:9].to_csv(path, index=False)
    return path
