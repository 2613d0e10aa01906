"""Spark DataFrames, whose rows are read by executors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from math import sqrt
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np

from mixfold.core.engine import Folded, Work, tree
from mixfold.core.errors import ClusterError, InvalidInputError
from mixfold.core.rows import Rows
from mixfold.core.source import Drawn, Source
from mixfold.engines._spark_columns import PLACE, Reader, quoted, reader_of
from mixfold.engines._spark_errors import on_spark
from mixfold.engines._spark_files import (
    FILES,
    BlocksElsewhereError,
    read_files,
    remove_files,
    send_files,
    write_files,
)
from mixfold.engines._spark_session import n_slots
from mixfold.engines._spark_tasks import (
    BLOCKS,
    MERGED,
    STATES,
    ReadBlocks,
    block,
    draw_blocks,
    fold_blocks,
    join_draws,
    merge_states,
    n_merged,
    pack,
    raise_first,
    told,
)
from mixfold.sources.table import Codes

T = TypeVar("T")

MOST_TO_DRIVER = 32
"""States that the driver receives and merges; executors merge more than these among themselves."""

DEVIATIONS = 10.0  # more rows are drawn than expected, so that there are never too few


class Blocks(NamedTuple):
    """Where blocks are: the rows of a frame, from which tasks read them by `read`.

    `send` makes them rows of Spark.
    """

    frame: Any
    read: ReadBlocks
    send: ReadBlocks

    def sent(self, frame: Any) -> Any:
        """The blocks of some rows of the frame, as rows of Spark."""
        return frame if self.send is iter else frame.mapInArrow(self.send, BLOCKS)


class Collection(Source):
    """The partitions of a DataFrame.

    Rows are read from blocks of numbers, which are computed once and kept while a model is fitted,
    so that the cost of a pass does not depend on how the DataFrame is computed. They are kept in
    files of the executors or, where that does not work, by Spark.
    """

    engine = "spark"
    can_join_partitions = False  # every task reads one

    def __init__(self, data: Any, reader: Reader) -> None:
        self.reader, self.columns = reader, reader.names
        self._data = data.select(*map(quoted, reader.read))
        self._packed = self._data.mapInArrow(partial(pack, reader), BLOCKS)
        self._blocks = Blocks(self._packed, iter, iter)
        self._lengths: dict[int, int] | None = None

    @property
    def d(self) -> int:
        return self.reader.d

    @property
    def length(self) -> int | None:
        return None if self._lengths is None else sum(self._lengths.values())

    @property
    def is_remote_readable(self) -> bool:
        return True

    @contextmanager
    def kept(self) -> Iterator[None]:
        with on_spark():
            files = self._data.mapInArrow(partial(write_files, self.reader), FILES)
            self._blocks = Blocks(files.persist(), read_files, send_files)
        try:
            self.lengths()
            yield
        finally:
            self._forget()

    def _forget(self) -> None:
        """Keep no blocks any more."""
        blocks, self._blocks = self._blocks, Blocks(self._packed, iter, iter)
        if blocks.read is read_files:
            with suppress(Exception):  # then Spark removes them with the application
                blocks.frame.mapInArrow(remove_files, FILES).collect()
        with on_spark():
            blocks.frame.unpersist()

    def _keep_by_spark(self) -> None:
        """Have Spark keep the blocks from now on."""
        self._forget()
        with on_spark():
            self._blocks = Blocks(self._packed.persist(), iter, iter)

    def _on_blocks(self, work: Callable[[], T]) -> T:
        """The result of work on the blocks, wherever they can be kept."""
        try:
            return work()
        except BlocksElsewhereError:
            self._keep_by_spark()
            return work()

    def lengths(self) -> dict[int, int]:
        """The number of rows of each partition that has any."""
        if self._lengths is None:
            self._lengths = self._on_blocks(self._count)
        if not self._lengths:
            raise InvalidInputError(f"{PLACE} has no rows: at least one is needed")
        return self._lengths

    def _count(self) -> dict[int, int]:
        from pyspark.sql import functions as f

        with on_spark():
            total, error = f.sum("n").alias("n"), f.first("error", True).alias("error")
            found = self._blocks.frame.groupBy("part").agg(total, error).collect()
        raise_first(row["error"] for row in found)
        return {row["part"]: row["n"] for row in sorted(found) if row["n"]}

    def partitions(self, length: int | None = None) -> Sequence[Source]:
        return [Partition(self, number) for number in self.lengths()]

    def blocks(self, start: int = 0, length: int | None = None) -> Iterator[Rows]:
        while True:
            try:
                for rows in self._blocks_from(start):
                    start += len(rows)
                    yield rows
                return
            except BlocksElsewhereError:
                self._keep_by_spark()

    def _blocks_from(self, start: int) -> Iterator[Rows]:
        with on_spark():
            packed = self._blocks.sent(self._blocks.frame).toLocalIterator()
        for rows in self._read(packed):
            skip = min(start, len(rows))
            start -= skip
            if skip < len(rows):
                yield rows.cut(skip, len(rows))

    def blocks_of(self, number: int) -> list[Rows]:
        """The rows of one partition, in the memory of the driver."""

        def work() -> list[Rows]:
            with on_spark():
                some = self._blocks.frame.where(f"part = {number}")
                return list(self._read(self._blocks.sent(some).collect()))

        return self._on_blocks(work)

    def _read(self, packed: Iterable[Any]) -> Iterator[Rows]:
        """The rows of blocks that Spark has sent."""
        with on_spark():
            for row in packed:
                raise_first([row["error"]])
                yield block(self.d, row["n"], row["float32"], row["x"], row["weight"])

    def sample(self, n: int, rng: np.random.Generator) -> Rows:
        """A uniform sample of all rows, which depends on how they are divided into partitions."""
        seed, total = int(rng.integers(2**63)), sum(self.lengths().values())
        most = (n + DEVIATIONS * sqrt(n) + DEVIATIONS**2) / total
        draw = partial(draw_blocks, n, most, seed, self.d, self._shards)
        drawn: Drawn = self._merged(draw, partial(join_draws, n))
        return drawn.rows

    def reduce(self, work: Work[Folded], before: object) -> Folded:
        """The merged result of all partitions."""
        fold = partial(fold_blocks, work, before, self.d, self._shards)
        folded: Folded = self._merged(fold, partial(work.merge, before))
        return folded

    @property
    def _shards(self) -> dict[int, int]:
        """The number of the shard of each partition."""
        return {number: shard for shard, number in enumerate(self.lengths())}

    def _merged(self, task: Any, join: Any) -> Any:
        def work() -> Any:
            frame, read = self._blocks.frame, self._blocks.read
            slots, n = n_slots(frame.sparkSession), len(self.lengths())
            if read is read_files and slots is not None:
                frame = frame.coalesce(slots)  # a task is slow to start, and can read several files
            return merged(frame.mapInArrow(partial(task, read), STATES), n, join)

        return self._on_blocks(work)


class Partition(Source):
    """One partition of a DataFrame."""

    engine = "spark"

    def __init__(self, collection: Collection, number: int) -> None:
        self.collection, self.number = collection, number
        self.columns = collection.columns

    @property
    def d(self) -> int:
        return self.collection.d

    def recipe(self) -> NoReturn:
        raise InvalidInputError(
            "X is a Spark DataFrame, whose rows only Spark reads: leave cluster out"
        )

    def blocks(self, start: int = 0, length: int | None = None) -> Iterator[Rows]:
        assert start == 0
        yield from self.collection.blocks_of(self.number)


def open_frame(
    data: Any, columns: Sequence[str] | None, weight: str | None, codes: Codes | None
) -> Collection:
    """A source over a DataFrame."""
    with on_spark():
        if data.isStreaming:
            raise InvalidInputError(
                "X is a streaming DataFrame, which is not learned at once: give the DataFrames of "
                "writeStream.foreachBatch to partial_fit"
            )
        reader = reader_of(data, columns, weight, codes)
        if codes is not None and codes.grows:
            for name in [name for name in reader.names if name in codes.values]:
                codes.codes(name, distinct_values(data, name))
        return Collection(data, reader)


def distinct_values(data: Any, column: str, most: int | None = None) -> Any:
    """The different values of a column as an Arrow array, sorted, or as many as are wanted."""
    name = quoted(column)
    with on_spark():
        found = data.select(name).dropna().distinct().orderBy(name)
        table = (found if most is None else found.limit(most)).toArrow()
    return table.column(0).combine_chunks()


def merged(results: Any, n: int, join: Any) -> Any:
    """The n results of tasks, merged in a tree of which the driver does the upper levels."""
    from pyspark.sql import functions as f

    with on_spark():
        while n > MOST_TO_DRIVER:
            group = f.floor(f.col("number") / f.lit(MERGED)).cast("int")
            results = results.repartition(n_merged(n), group)
            results, n = results.mapInArrow(partial(merge_states, join), STATES), n_merged(n)
        rows = results.collect()
    found = told(rows)
    if len(found) != n:
        raise ClusterError(
            f"Spark returned the results of {len(found)} partitions of {n}, as the DataFrame is "
            "not the same whenever it is computed: persist() or checkpoint() it before fit"
        )
    return tree([state for _, state in found], join)
