"""A session that is stopped, after all other tests that need it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cluster_fits import FRAME, mixture
from mixfold.core.errors import ClusterError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_what_needs_the_session_is_refused(spark: SparkSession, rows: Any) -> None:
    model = mixture().fit(FRAME)
    spark.stop()
    for call in (model.fit, model.predict, model.score):
        with pytest.raises(ClusterError, match="the Spark session is stopped: create one"):
            call(rows)
