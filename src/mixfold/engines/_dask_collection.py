"""Dask arrays and dataframes, whose rows are computed on a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan, sqrt
from typing import Any

import numpy as np

from mixfold.core.engine import tree
from mixfold.core.errors import InvalidInputError, SourceError, in_partition
from mixfold.core.fingerprint import FULL_BYTES, Fingerprint, weight_fingerprint
from mixfold.core.rows import Rows
from mixfold.core.source import Drawn, Source, draw_rows, join_drawn
from mixfold.engines._dask_errors import on_cluster
from mixfold.sources.array_source import ArraySource
from mixfold.sources.opening import as_table, check_array, open_table
from mixfold.sources.optional_arrow import arrow
from mixfold.sources.table import Codes

SAMPLED_PARTS = 256  # partitions that are computed first for a sample
DEVIATIONS = 10.0  # more rows are drawn than expected, so that there are never too few


def is_collection(data: Any) -> bool:
    """Whether `data` is a Dask array or dataframe."""
    return hasattr(data, "__dask_graph__") and hasattr(data, "to_delayed")


class Collection(Source):
    """The partitions of a dataframe, or the chunks of rows of an array."""

    engine = "dask"

    def __init__(self, parts: Sequence[Chunk], length: int | None, name: str) -> None:
        self.parts, self._length, self.name = parts, length, name
        self.columns = parts[0].columns
        self._counted = length

    @property
    def d(self) -> int:
        return self.parts[0].d

    @property
    def length(self) -> int | None:
        return self._length

    @property
    def is_remote_readable(self) -> bool:
        return True

    def fingerprint(self, limit: int = FULL_BYTES) -> Fingerprint:
        """The fingerprint by the name of the collection, which Dask derives from its tasks."""
        weight = weight_fingerprint(self.parts[0].weight)
        return [[f"the Dask collection {self.name}", self.name], *weight]

    def partitions(self, length: int | None = None) -> Sequence[Source]:
        return self.parts

    def blocks(self, start: int = 0, length: int | None = None) -> Iterator[Rows]:
        for part in self.parts:
            for rows in part.blocks(0, length):
                skip = min(start, len(rows))
                start -= skip
                if skip < len(rows):
                    yield rows.cut(skip, len(rows))

    def sample(self, n: int, rng: np.random.Generator) -> Rows:
        """A uniform sample of all rows, or of those of some partitions if there are many.

        Every partition numbers its rows at random on its worker, and the rows with the smallest
        numbers are kept. The sample depends on the partitions alone, not on who computes them.
        All partitions are computed if some have too few rows.
        """
        seed = int(rng.integers(2**63))
        step = -(-len(self.parts) // SAMPLED_PARTS)
        drawn = self._draw_from(self.parts[::step], n, seed)
        if len(drawn.keys) < n and step > 1:
            drawn = self._draw_from(self.parts, n, seed)
        return drawn.rows

    def _draw_from(self, parts: Sequence[Chunk], n: int, seed: int) -> Drawn:
        """The rows with the n smallest numbers of some partitions."""
        from dask import delayed

        every = len(parts) == len(self.parts)
        most = _likely(n, self._counted) if every and self._counted else np.inf
        draw, merge = delayed(_draw_rows, pure=False), delayed(_merge_drawn, pure=False)
        leaves = [draw(n, most, seed, part.number, *part.recipe()) for part in parts]
        with on_cluster():
            drawn: Drawn = tree(leaves, lambda some: merge(n, some)).compute()
        if every:
            self._counted = drawn.length
        return drawn


class Chunk(Source):
    """One partition, which has not been computed."""

    def __init__(
        self,
        block: Any,
        number: int,
        d: int,
        columns: list[str] | None,
        weight: str | None,
        codes: Codes | None = None,
    ) -> None:
        self.block, self.number, self.weight, self.codes = block, number, weight, codes
        self._d, self.columns = d, columns

    @property
    def d(self) -> int:
        return self._d

    @property
    def is_remote_readable(self) -> bool:
        return True

    def recipe(self) -> tuple[Any, ...]:
        return opened, self.block, self.d, self.columns, self.weight, self.codes

    def blocks(self, start: int = 0, length: int | None = None) -> Iterator[Rows]:
        make, block, *how = self.recipe()
        with on_cluster():
            computed = block.compute()
        yield from make(computed, *how).blocks(start, length)


def opened(
    block: Any, d: int, columns: list[str] | None, weight: str | None, codes: Codes | None = None
) -> Source:
    """The rows of a computed partition."""
    if columns is None:
        x = check_array(np.asarray(block))
        if x.shape[1] != d:
            raise SourceError(f"it has {x.shape[1]} columns, the others have {d}")
        return ArraySource(x)
    wanted = {*columns, *([weight] if weight else [])}
    if set(map(str, block.columns)) != wanted:
        raise SourceError(
            f"it has columns {', '.join(map(str, block.columns))}: "
            f"{', '.join(sorted(wanted))} are needed, as in the others"
        )
    return open_table(block, columns, weight, codes)


def open_collection(
    data: Any,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    codes: Codes | None = None,
) -> Collection:
    """A source over a Dask array or dataframe."""
    if hasattr(data, "columns"):
        return _open_dataframe(data, columns, weight, codes)
    if getattr(data, "ndim", 0) != 2:
        raise InvalidInputError(
            f"the Dask collection is a {type(data).__name__} of shape "
            f"{getattr(data, 'shape', None)}: rows and columns are needed"
        )
    check_array(np.empty((0, 0), data.dtype))
    blocks = data.rechunk({1: -1}).to_delayed()[:, 0]
    n = float(sum(data.chunks[0]))
    chunks = [Chunk(b, i, int(data.shape[1]), None, None) for i, b in enumerate(blocks)]
    return Collection(chunks, None if isnan(n) else int(n), str(data.name))


def _open_dataframe(
    data: Any, columns: Sequence[str] | None, weight: str | None, codes: Codes | None
) -> Collection:
    names = open_table(data._meta, columns, weight, codes).columns
    assert names is not None
    wanted = [*names, *([weight] if weight else [])]
    if set(wanted) != set(map(str, data.columns)):
        data = data[[name for name in data.columns if str(name) in wanted]]
    parts = data.to_delayed()
    return Collection(
        [Chunk(block, i, len(names), list(names), weight, codes) for i, block in enumerate(parts)],
        None,
        str(data._name),
    )


def first_values(data: Any) -> Any:
    """An Arrow table with rows of all partitions that tell the types of the columns."""
    return as_table(data.map_partitions(_first_values, meta=data._meta).compute())


def _first_values(partition: Any) -> Any:
    """Rows of a partition in which its columns have their first values."""
    there = partition.notna().to_numpy()
    return partition.iloc[np.unique(there.argmax(axis=0))] if len(partition) else partition


def distinct_values(data: Any, column: str) -> Any:
    """The different values of a column of all partitions, as an Arrow array."""
    found = data[column].dropna().astype(object).drop_duplicates().compute().tolist()
    return arrow().array(found)


def _likely(n: int, length: int) -> float:
    """A number below which more than n of `length` random numbers are, almost surely."""
    return (n + DEVIATIONS * sqrt(n) + DEVIATIONS**2) / length


def _draw_rows(n: int, most: float, seed: int, number: int, make: Any, *where: Any) -> Drawn:
    with in_partition(number):
        source: Source = make(*where)
        rng = np.random.default_rng([seed, number])
        return draw_rows(source.blocks(), n, rng, source.d, most)


def _merge_drawn(n: int, parts: list[Drawn]) -> Drawn:
    return join_drawn(parts).smallest(n)
