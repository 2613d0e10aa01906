"""What Spark's executors run: functions over iterators of Arrow batches.

They are pickled by name, so executors need mixfold. An error that is raised on purpose is returned
as a row, since Spark would run a task that raises it several times, and report its text alone.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from math import ceil
from operator import itemgetter
from typing import Any

import numpy as np

from mixfold.core.engine import FAN_IN, Work, join_neighbours
from mixfold.core.errors import MixfoldError, in_partition
from mixfold.core.rows import Rows
from mixfold.core.source import Drawn, Source, draw_rows, join_drawn
from mixfold.sources.optional_arrow import arrow

BLOCKS = "part int, n bigint, float32 boolean, x binary, weight binary, error binary"
STATES = "number int, state binary, error binary"
MERGED = FAN_IN**2
"""States that a task merges, in two levels of the tree."""

BLOCK_ELEMENTS = 2**17

Batches = Iterable[Any]
ReadBlocks = Callable[[Batches], Batches]
Found = Iterator[tuple[int, Any]]


def pack(read: Callable[[Any], Source], batches: Batches) -> Iterator[Any]:
    """The rows of a partition as blocks of numbers, which are kept and read quickly."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    part = context.partitionId()
    try:
        for batch in batches:
            for rows in read(batch).blocks():
                yield from _packed(part, rows)
    except MixfoldError as error:
        yield batch_of(BLOCKS, [part, 0, False, None, None, _told(part, error)])


def _packed(part: int, rows: Rows) -> Iterator[Any]:
    length = max(1, BLOCK_ELEMENTS // max(rows.x.shape[1], 1))
    for first in range(0, len(rows), length):
        some = rows.cut(first, first + length)
        x = some.x if some.x.dtype == np.float32 else np.asarray(some.x, dtype=np.float64)
        weight = None if some.weight is None else np.asarray(some.weight, np.float64).tobytes()
        narrow = x.dtype == np.float32
        yield batch_of(BLOCKS, [part, len(some), narrow, x.T.tobytes(), weight, None])


def unpacked(d: int, batches: Batches) -> Iterator[tuple[int, Rows]]:
    """The rows of blocks, with the numbers of their partitions."""
    for batch in batches:
        part, n, narrow, x, weight = (batch.column(i) for i in range(5))
        for i in range(batch.num_rows):
            found = weight[i].as_buffer() if weight[i].is_valid else None
            yield (
                part[i].as_py(),
                block(d, n[i].as_py(), narrow[i].as_py(), x[i].as_buffer(), found),
            )


def block(d: int, n: int, narrow: bool, x: Any, weight: Any) -> Rows:
    """The rows of a block."""
    cells = np.frombuffer(x, dtype=np.float32 if narrow else np.float64).reshape(d, n)
    return Rows(cells.T, None if weight is None else np.frombuffer(weight, dtype=np.float64))


class Stream(Source):
    """Blocks of rows in the order in which they arrive, once."""

    rereadable = False

    def __init__(self, d: int, rows: Iterator[Rows]) -> None:
        self._d, self._rows = d, rows

    @property
    def d(self) -> int:
        return self._d

    def blocks(self, start: int = 0, length: int | None = None) -> Iterator[Rows]:
        return self._rows


def partitions_in(d: int, batches: Batches) -> Iterator[tuple[int, Iterator[Rows]]]:
    """The partitions of a task, each with its blocks; a task has one as a rule."""
    for part, pairs in groupby(unpacked(d, batches), key=itemgetter(0)):
        yield part, map(itemgetter(1), pairs)


def fold_blocks(
    work: Work[Any],
    before: object,
    d: int,
    numbers: dict[int, int],
    read: ReadBlocks,
    batches: Batches,
) -> Iterator[Any]:
    """The state after each partition; `numbers` are those of the shards."""

    def found() -> Found:
        for part, blocks in partitions_in(d, read(batches)):
            number = numbers.get(part, -1)
            first = work.begin(before, number)
            yield number, work.fold(first, part, Stream, d, blocks)

    return states(found())


def fold_shards(
    work: Work[Any], before: object, shards: Sequence[tuple[int, Sequence[Any]]], batches: Batches
) -> Iterator[Any]:
    """The state after each shard whose number is a row; its partitions are read from files."""

    def found() -> Found:
        for batch in batches:
            for shard in batch.column(0).to_pylist():
                number, recipes = shards[shard]
                folded = work.begin(before, shard)
                for i, (opened, *where) in enumerate(recipes):
                    folded = work.fold(folded, number + i, opened, *where)
                yield shard, folded

    return states(found())


def draw_blocks(
    n: int,
    most: float,
    seed: int,
    d: int,
    numbers: dict[int, int],
    read: ReadBlocks,
    batches: Batches,
) -> Iterator[Any]:
    """The rows with the n smallest of random numbers, of each partition."""

    def found() -> Found:
        for part, blocks in partitions_in(d, read(batches)):
            rng = np.random.default_rng([seed, part])
            yield numbers.get(part, -1), draw_rows(blocks, n, rng, d, most)

    return states(found())


def join_draws(n: int, parts: Sequence[Drawn]) -> Drawn:
    """What was drawn from several partitions, joined."""
    return join_drawn(parts).smallest(n)


def merge_states(join: Callable[[list[Any]], Any], batches: Batches) -> Iterator[Any]:
    """The states of groups of `MERGED` neighbours, merged as the first two levels of the tree."""

    def found() -> Found:
        rows = told(row for batch in batches for row in batch.to_pylist())
        for group, members in groupby(rows, key=lambda row: row[0] // MERGED):
            merged = [state for _, state in members]
            for _ in range(2):
                merged = join_neighbours(merged, join)
            yield group, merged[0]

    return states(found())


def n_merged(n: int) -> int:
    """The number of states after `merge_states`."""
    return ceil(n / MERGED)


def states(found: Found) -> Iterator[Any]:
    """Numbered results as rows; an error that is raised on purpose is the last row."""
    try:
        for number, state in found:
            yield batch_of(STATES, [number, pickle.dumps(state), None])
    except MixfoldError as error:
        yield batch_of(STATES, [-1, None, pickle.dumps(error)])


def told(rows: Iterable[Any]) -> list[tuple[int, Any]]:
    """The results in rows, by their numbers; an error among them is raised."""
    rows = list(rows)
    raise_first(row["error"] for row in rows)
    found = ((row["number"], pickle.loads(row["state"])) for row in rows)
    return sorted(found, key=itemgetter(0))


def raise_first(errors: Iterable[bytes | None]) -> None:
    """Raise the first of some errors, if there are any, whatever their order."""
    found = [pickle.loads(error) for error in errors if error is not None]
    if found:
        raise min(found, key=str)


def _told(part: int, error: MixfoldError) -> bytes:
    """A pickled error with the number of the partition."""
    try:
        with in_partition(part):
            raise error
    except MixfoldError as placed:
        return pickle.dumps(placed)


def batch_of(schema: str, row: Sequence[Any]) -> Any:
    """An Arrow batch of one row, with the columns of a Spark schema."""
    pa, known = arrow(), schema_of(schema)
    arrays = [pa.array([cell], field.type) for cell, field in zip(row, known, strict=True)]
    return pa.record_batch(arrays, schema=known)


def schema_of(schema: str) -> Any:
    """A Spark schema as one of Arrow."""
    pa = arrow()
    kinds = {
        "int": pa.int32(),
        "bigint": pa.int64(),
        "boolean": pa.bool_(),
        "binary": pa.binary(),
        "string": pa.string(),
    }
    fields = (field.split() for field in schema.split(", "))
    return pa.schema([(name, kinds[kind]) for name, kind in fields])
