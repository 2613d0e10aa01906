"""A Spark session for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

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
    """Three partitions of the rows of `FRAME`, one of which is empty, in their order."""
    data = spark.createDataFrame(FRAME.to_numpy().tolist(), list(FRAME.columns))
    some = data.coalesce(1).limit(2500).union(data.coalesce(1).where("false"))
    found = some.union(data.coalesce(1).offset(2500)).persist()
    assert found.count() == len(FRAME)
    return found
