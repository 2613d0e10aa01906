"""A Spark session for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cluster_fits import FRAME
from spark_session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let pass that pyspark warns of every pandas from 3 on."""
    for item in items:
        if item.path.parent.name == "spark":
            item.add_marker(pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning"))


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    with local_session() as session:
        yield session


@pytest.fixture(scope="package")
def rows(spark: SparkSession) -> Any:
    """Three partitions of the rows of `FRAME` in their order, of which the second is empty."""
    table = pa.Table.from_pandas(FRAME, preserve_index=False)
    parts = [table[:2500].to_batches(), [], table[2500:].to_batches()]

    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from parts[number]

    found = spark.range(0, 3, 1, 3).mapInArrow(make, "a double, b double").persist()
    assert found.count() == len(FRAME)
    return found
