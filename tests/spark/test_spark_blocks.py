"""Blocks of rows in files of executors, and what happens where there are none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyspark
import pytest

from cluster_fits import CENTRES, FRAME, NAMES, X, mixture
from mixfold.core.errors import MixfoldError
from mixfold.core.rows import join
from mixfold.core.value import equal
from mixfold.engines import _spark_files
from mixfold.engines._spark_files import BlocksElsewhereError, read_files, write_files
from mixfold.engines._spark_frame import Collection, open_frame
from mixfold.engines._spark_tasks import raise_first
from mixfold.sources.opening import open_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def files(spark: SparkSession) -> list[Path]:
    """Those of mixfold in the folder of the application."""
    return sorted(Path(pyspark.SparkFiles.getRootDirectory()).glob("mixfold-*"))


def collection(rows: Any) -> Collection:
    return open_frame(rows, None, None, None)


READ: dict[str, Callable[[Collection], np.ndarray]] = {
    "sample": lambda data: data.sample(100, np.random.default_rng(0)).x,
    "blocks": lambda data: join(list(data.blocks())).x,
    "a partition": lambda data: join(list(data.partitions()[1].blocks())).x,
}


def test_files_are_there_during_a_fit_only(spark: SparkSession, rows: Any) -> None:
    data = collection(rows)
    with data.kept():
        assert len(files(spark)) == 2  # of three partitions, one of which is empty
        np.testing.assert_array_equal(join(list(data.blocks())).x, X)
    assert not files(spark)
    with pytest.raises(MixfoldError, match="rows must be finite"):
        mixture().fit(rows.selectExpr("a", "double('infinity') as b"))
    assert not files(spark)


@pytest.mark.parametrize("how", READ)
def test_rows_whose_files_are_gone_are_read_again(spark: SparkSession, rows: Any, how: str) -> None:
    data, known = collection(rows), collection(rows)
    with data.kept():
        first, *_ = data.blocks()
        for file in files(spark):
            file.unlink()
        np.testing.assert_array_equal(READ[how](data), READ[how](known))
        assert not files(spark)  # Spark keeps them all
        np.testing.assert_array_equal(first.x, X[: len(first)])


def test_a_fit_without_files_has_the_same_bits(
    spark: SparkSession, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, count = mixture(init=CENTRES).fit(rows), Collection._count

    def count_and_remove(data: Collection) -> dict[int, int]:
        found = count(data)
        for file in files(spark):
            file.unlink()
        return found

    monkeypatch.setattr(Collection, "_count", count_and_remove)
    assert equal(mixture(init=CENTRES).fit(rows).params_, expected.params_)
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == 1  # that of the test


@pytest.mark.parametrize("folder", [".", "none"])
def test_where_files_cannot_be_written(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_spark_files, "_new_file", lambda: tmp_path / folder / "x.arrows")
    monkeypatch.setattr(pyspark.TaskContext, "get", lambda: SimpleNamespace(partitionId=lambda: 3))

    def read(batch: pa.RecordBatch) -> Any:
        return open_table(pa.Table.from_batches([batch]), NAMES, None)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from pa.Table.from_pandas(FRAME, preserve_index=False).to_batches()

    (found,) = (batch.to_pylist()[0] for batch in write_files(read, batches()))
    if folder == "none":
        with pytest.raises(BlocksElsewhereError, match=r"x\.arrows"):
            raise_first([found["error"]])
        return
    assert (found["part"], found["n"], found["error"]) == (3, len(X), None)
    names = pa.record_batch({"file": [found["file"]]})
    assert sum(block.column("n")[0].as_py() for block in read_files([names])) == len(X)
