"""Dask arrays and dataframes, whose rows are computed on a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan
from typing import Any

import numpy as np

from mixfold.core.errors import InvalidInputError, SourceError, in_partition
from mixfold.core.fingerprint import FULL_BYTES, Fingerprint, weight_fingerprint
from mixfold.core.rows import Rows, join
from mixfold.core.source import Source
from mixfold.engines._dask_errors import on_cluster
from mixfold.sources.array_source import ArraySource
from mixfold.sources.opening import check_array, open_table

SAMPLED_PARTS = 16  # partitions that are computed first for a sample


def is_collection(data: Any) -> bool:
    """Whether `data` is a Dask array or dataframe."""
    return hasattr(data, "__dask_graph__") and hasattr(data, "to_delayed")


class Collection(Source):
    """The partitions of a dataframe, or the chunks of rows of an array."""

    engine = "dask"

    def __init__(self, parts: Sequence[Chunk], length: int | None, name: str) -> None:
        self.parts, self._length, self.name = parts, length, name
        self.columns = parts[0].columns

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
        """The first rows of some partitions, and of others if those have too few rows."""
        from dask import compute, delayed

        found: list[Rows] = []
        for parts in _spread(self.parts):
            left = n - sum(map(len, found))
            if left <= 0:
                break
            share = -(-left // len(parts))
            asked = [delayed(_first_rows)(share, part.number, *part.recipe()) for part in parts]
            with on_cluster():
                found += compute(*asked)
        return join(found).cut(0, n)


class Chunk(Source):
    """One partition, which has not been computed."""

    def __init__(
        self, block: Any, number: int, d: int, columns: list[str] | None, weight: str | None
    ) -> None:
        self.block, self.number, self.weight = block, number, weight
        self._d, self.columns = d, columns

    @property
    def d(self) -> int:
        return self._d

    @property
    def is_remote_readable(self) -> bool:
        return True

    def recipe(self) -> tuple[Any, ...]:
        return opened, self.block, self.d, self.columns, self.weight

    def blocks(self, start: int = 0, length: int | None = None) -> Iterator[Rows]:
        make, block, *how = self.recipe()
        with on_cluster():
            computed = block.compute()
        yield from make(computed, *how).blocks(start, length)


def opened(block: Any, d: int, columns: list[str] | None, weight: str | None) -> Source:
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
    return open_table(block, columns, weight)


def open_collection(
    data: Any, columns: Sequence[str] | None = None, weight: str | None = None
) -> Collection:
    """A source over a Dask array or dataframe."""
    if hasattr(data, "columns"):
        return _open_dataframe(data, columns, weight)
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


def _open_dataframe(data: Any, columns: Sequence[str] | None, weight: str | None) -> Collection:
    names = open_table(data._meta, columns, weight).columns
    assert names is not None
    wanted = [*names, *([weight] if weight else [])]
    if set(wanted) != set(data.columns):
        data = data[wanted]
    parts = data.to_delayed()
    return Collection(
        [Chunk(block, i, len(names), list(names), weight) for i, block in enumerate(parts)],
        None,
        str(data._name),
    )


def _spread(parts: Sequence[Chunk]) -> Iterator[Sequence[Chunk]]:
    """Groups of partitions, each of which is spread over the whole collection."""
    step = max(1, -(-len(parts) // SAMPLED_PARTS))
    return (parts[first::step] for first in range(step))


def _first_rows(n: int, number: int, make: Any, *where: Any) -> Rows:
    with in_partition(number):
        rows: Rows = make(*where).head(n)
    return rows
