"""The rows of a Spark DataFrame in files of the executors that computed them.

A task then reads them from the memory of its machine, where Spark would copy them from its own to
that of Python in every pass. Spark keeps the names of the files, and so starts tasks where they
are; if it has lost them, it has the files written again. Files are in the folder of the
application, which Spark removes.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from mixfold.core.errors import ClusterError
from mixfold.core.source import Source
from mixfold.engines._spark_tasks import BLOCKS, Batches, batch_of, pack, schema_of
from mixfold.sources.optional_arrow import arrow

FILES = "part int, n bigint, file string, error binary"


class BlocksElsewhereError(ClusterError):
    """A task cannot write files on its machine, or does not find those that others wrote."""


def write_files(read: Callable[[Any], Source], batches: Batches) -> Iterator[Any]:
    """The name of a file with the blocks of a partition, and the number of rows in it."""
    file = _new_file()
    try:
        written = _write(file, pack(read, batches))
    except OSError as error:
        written = [-1, 0, None, pickle.dumps(BlocksElsewhereError(str(error)))]
    if not written[1]:
        file.unlink(missing_ok=True)
    if written[0] is not None:
        yield batch_of(FILES, written)


def _write(file: Path, blocks: Batches) -> list[Any]:
    """Write blocks to a file; a row of `FILES`, without a partition if there are no blocks."""
    pa, part, n = arrow(), None, 0
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, schema_of(BLOCKS)) as stream:
        for block in blocks:
            (row,) = block.select(["part", "n", "error"]).to_pylist()
            if row["error"] is not None:
                return [row["part"], 0, None, row["error"]]
            part, n = row["part"], n + row["n"]
            stream.write_batch(block)
    return [part, n, str(file), None]


def read_files(batches: Batches) -> Iterator[Any]:
    """The blocks in the files that are named."""
    pa = arrow()
    for batch in batches:
        for file in batch.column("file").to_pylist():
            try:
                source = pa.memory_map(file)
            except OSError as error:
                raise BlocksElsewhereError(str(error)) from error
            yield from pa.ipc.open_stream(source)


def send_files(batches: Batches) -> Iterator[Any]:
    """The same as rows of Spark, of which the last one may be an error."""
    try:
        yield from read_files(batches)
    except BlocksElsewhereError as error:
        yield batch_of(BLOCKS, [-1, 0, False, None, None, pickle.dumps(error)])


def remove_files(batches: Batches) -> Iterator[Any]:
    """Remove the files that are named, where they are on this machine."""
    for batch in batches:
        for file in batch.column("file").to_pylist():
            with suppress(OSError, TypeError):
                Path(file).unlink()
        yield batch.slice(0, 0)


def _new_file() -> Path:
    from pyspark import SparkFiles

    return Path(SparkFiles.getRootDirectory()) / f"mixfold-{uuid4().hex}.arrows"
