"""Laws of every source."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np

from mixfold.core.rows import join
from mixfold.core.source import Source


def blocks_make_up_the_data(source: Source, x: np.ndarray) -> None:
    """Blocks concatenate to the rows, in order; twice if the source can be read again."""
    for _ in range(2 if source.rereadable else 1):
        found = join(list(source.blocks())).x
        np.testing.assert_array_equal(found, x, "blocks() (ACTUAL) are not the rows of the file")
    assert source.d == x.shape[1], f"d is {source.d}, and the rows have {x.shape[1]} columns"
    assert source.length in (None, len(x)), f"length is {source.length} of {len(x)} rows"


def a_cursor_resumes_exactly(source: Source, x: np.ndarray) -> None:
    """Blocks from row i on, of any length, are the rows from i on."""
    if not source.rereadable:
        return
    starts = (0, 1, len(x) // 3, len(x) - 1, len(x))
    for start, length in [
        *((start, None) for start in starts),
        (len(x) // 3, 7),
        (len(x) // 2, 50),
    ]:
        parts = list(source.blocks(start, length))
        found = join(parts).x if parts else np.empty((0, source.d))
        np.testing.assert_array_equal(
            found,
            x[start:],
            f"blocks({start}, {length}) (ACTUAL) are not the rows from number {start} on, counted "
            "from 0; batches(start, length) must give each batch the number of its first row",
        )


def samples_are_rows(source: Source, x: np.ndarray) -> None:
    """A sample has rows of the source, and the source is whole afterwards."""
    sample = source.sample(32, np.random.default_rng(0))
    assert 0 < len(sample) <= 32
    rows = {row.tobytes() for row in np.ascontiguousarray(x)}
    assert all(np.ascontiguousarray(row).tobytes() in rows for row in sample.x)
    np.testing.assert_array_equal(join(list(source.blocks())).x, x)


def partitions_make_up_the_data(source: Source, x: np.ndarray) -> None:
    """Partitions of any length, one after the other, are the source."""
    if not source.rereadable:
        return
    for length in (None, 1, 50, len(x)):
        parts = source.partitions(length)
        rows = [rows for part in parts for rows in part.blocks()]
        np.testing.assert_array_equal(join(rows).x, x)
        assert all(part.d == source.d and part.columns == source.columns for part in parts)
        again = [one for part in parts for one in part.partitions(20)]
        rows = [rows for part in again for rows in part.blocks()]
        np.testing.assert_array_equal(join(rows).x, x)


def files_pickle_as_descriptions(source: Source, x: np.ndarray) -> None:
    """Partitions of files travel without their rows, and read the same elsewhere."""
    if not isinstance(getattr(source.partitions()[0], "path", None), Path):
        return
    for part in [source, *source.partitions(100)]:
        packed = pickle.dumps(part)
        assert len(packed) < 1000 + 200 * len(source.partitions(100))
        read = join(list(pickle.loads(packed).blocks()))
        np.testing.assert_array_equal(read.x, join(list(part.blocks())).x)


LAWS = [
    samples_are_rows,
    a_cursor_resumes_exactly,
    partitions_make_up_the_data,
    files_pickle_as_descriptions,
    blocks_make_up_the_data,
]
