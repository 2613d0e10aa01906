"""The engine that runs on Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import accumulate
from typing import Any

from mixfold.core.engine import Engine, Folded, RowResult, RowWork, Work
from mixfold.core.source import Source
from mixfold.engines._spark_columns import empty_table
from mixfold.engines._spark_errors import on_spark
from mixfold.engines._spark_frame import Partition, distinct_values, merged, open_frame
from mixfold.engines._spark_results import Columns, OneColumn, summed, with_columns
from mixfold.engines._spark_session import is_dataframe, is_session, session_at
from mixfold.engines._spark_tasks import STATES, fold_shards
from mixfold.sources.table import Codes

SCHEMES = ("spark://", "sc://")


class Spark(Engine):
    """Runs a task per partition by `mapInArrow`, which Spark repeats if an executor is lost.

    Executors get the work with the task, and return states. There are no barriers and no RDDs, so
    Spark Connect will do.
    """

    served = "'spark', a Spark session or its address"

    def __init__(self, session: Any) -> None:
        self.session = session

    @classmethod
    def accepts(cls, cluster: object) -> bool:
        """Accept sessions and addresses of Spark."""
        return is_session(cluster) or (isinstance(cluster, str) and cluster.startswith(SCHEMES))

    @classmethod
    def holds(cls, data: Any) -> bool:
        return is_dataframe(data)

    @classmethod
    def open(
        cls,
        data: Any,
        columns: Sequence[str] | None,
        weight: str | None,
        codes: Codes | None = None,
    ) -> Source:
        return open_frame(data, columns, weight, codes)

    @classmethod
    def in_memory(cls) -> str:
        return "X.toPandas()"

    @classmethod
    def in_sorted_files(cls) -> str:
        return "X.sort(group).write.parquet(...)"

    @classmethod
    def typed_table(cls, data: Any) -> Any:
        with on_spark():
            return empty_table(data)

    @classmethod
    def distinct_values(cls, data: Any, column: str, most: int) -> Any:
        return distinct_values(data, column, most)

    @classmethod
    def map_rows(
        cls,
        data: Any,
        work: RowWork,
        result: RowResult,
        columns: Sequence[str] | None,
        codes: Codes | None,
    ) -> Any:
        return cls.with_columns(data, OneColumn(work, result), columns, codes)

    @classmethod
    def with_columns(
        cls, data: Any, work: Columns, columns: Sequence[str] | None, codes: Codes | None
    ) -> Any:
        """The DataFrame with the columns that `work` computes from rows, when they are read."""
        with on_spark():
            return with_columns(data, work, columns, codes)

    @classmethod
    def total(
        cls,
        data: Any,
        work: RowWork,
        columns: Sequence[str] | None,
        codes: Codes | None,
        cluster: Any,
    ) -> Any:
        return summed(data, work, columns, codes)

    @classmethod
    def connect(cls, cluster: Any) -> AbstractContextManager[Engine]:
        return spark_engine(cluster)

    def reduce(
        self, work: Work[Folded], before: object, shards: Sequence[Sequence[Source]]
    ) -> Folded:
        """The merged result of all shards: of a DataFrame, or of files that executors read."""
        part = shards[0][0]
        if isinstance(part, Partition):
            return part.collection.reduce(work, before)
        counts = accumulate((len(shard) for shard in shards), initial=0)
        given = [
            (n, [part.recipe() for part in shard]) for n, shard in zip(counts, shards, strict=False)
        ]
        with on_spark():
            numbers = self.session.range(0, len(shards), 1, len(shards))
            folded = numbers.mapInArrow(partial(fold_shards, work, before, given), STATES)
        merge: Any = partial(work.merge, before)
        result: Folded = merged(folded, len(shards), merge)
        return result


@contextmanager
def spark_engine(cluster: Any) -> Iterator[Spark]:
    """The engine of a session; a DataFrame has its own."""
    if cluster is None:
        yield Spark(None)
        return
    with session_at(cluster) as session:
        yield Spark(session)
