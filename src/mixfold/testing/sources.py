"""Laws of every source."""

from __future__ import annotations

import numpy as np

from mixfold.core.rows import join
from mixfold.core.source import Source


def blocks_make_up_the_data(source: Source, x: np.ndarray) -> None:
    """Blocks concatenate to the rows, in order; twice if the source can be read again."""
    for _ in range(2 if source.rereadable else 1):
        found = join(list(source.blocks())).x
        np.testing.assert_array_equal(found, x)
    assert source.d == x.shape[1]
    assert source.length in (None, len(x))


def a_cursor_resumes_exactly(source: Source, x: np.ndarray) -> None:
    """Blocks from row i on are the rows from i on."""
    if not source.rereadable:
        return
    for start in (0, 1, len(x) // 3, len(x) - 1, len(x)):
        parts = list(source.blocks(start))
        found = join(parts).x if parts else np.empty((0, source.d))
        np.testing.assert_array_equal(found, x[start:])


def samples_are_rows(source: Source, x: np.ndarray) -> None:
    """A sample has rows of the source, and the source is whole afterwards."""
    sample = source.sample(32, np.random.default_rng(0))
    assert 0 < len(sample) <= 32
    rows = {row.tobytes() for row in np.ascontiguousarray(x)}
    assert all(np.ascontiguousarray(row).tobytes() in rows for row in sample.x)
    np.testing.assert_array_equal(join(list(source.blocks())).x, x)


LAWS = [samples_are_rows, a_cursor_resumes_exactly, blocks_make_up_the_data]
