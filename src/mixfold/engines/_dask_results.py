"""Results for the rows of Dask collections, as collections or as one sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mixfold.core.engine import RowResult, RowWork, tree
from mixfold.core.errors import in_partition
from mixfold.engines._dask_collection import Collection, opened
from mixfold.engines._dask_errors import on_cluster


def mapped(data: Any, work: RowWork, result: RowResult, source: Collection) -> Any:
    """The results of all rows: an array of an array, a series or dataframe of a dataframe."""
    from dask import delayed

    if not hasattr(data, "columns"):
        return _mapped_array(data, work, result, source)
    first = source.parts[0]
    function = OnFrame(result, first.recipe()[2:])
    names = [name for name in data.columns if str(name) in (first.columns or ())]
    return data[names].map_partitions(function, delayed(work), meta=function.empty(data._meta))


def _mapped_array(data: Any, work: RowWork, result: RowResult, source: Collection) -> Any:
    from dask import delayed

    rows = data.rechunk({1: -1})
    function = OnArray(result, source.d)
    if result.names is None:
        shape = {"drop_axis": 1, "meta": np.empty(0, result.dtype)}
    else:
        width = len(result.names)
        shape = {"chunks": (rows.chunks[0], (width,)), "meta": np.empty((0, 0), result.dtype)}
    return rows.map_blocks(function, delayed(work), dtype=result.dtype, **shape)


def summed(work: RowWork, source: Collection) -> Any:
    """The sum of `work` over all partitions, added in the order of a tree."""
    from dask import delayed

    given, one, merge = delayed(work), delayed(_one, pure=False), delayed(sum, pure=False)
    leaves = [one(given, part.number, *part.recipe()) for part in source.parts]
    with on_cluster():
        return tree(leaves, merge).compute()


def _one(work: RowWork, number: int, make: Any, *where: Any) -> Any:
    with in_partition(number):
        return work(make(*where))


def nothing(result: RowResult) -> np.ndarray:
    """The results of no rows."""
    shape = (0,) if result.names is None else (0, len(result.names))
    return np.empty(shape, result.dtype)


@dataclass(frozen=True)
class OnFrame:
    """Computes the results of a partition of a dataframe, whose index they get."""

    result: RowResult
    opening: tuple[Any, ...]

    def __call__(self, frame: Any, work: RowWork, partition_info: Any = None) -> Any:
        if not len(frame):
            return self.empty(frame)
        with in_partition(0 if partition_info is None else partition_info["number"]):
            return self._wrapped(work(opened(frame, *self.opening)), frame.index)

    def empty(self, frame: Any) -> Any:
        """The results of no rows."""
        return self._wrapped(nothing(self.result), frame.index[:0])

    def _wrapped(self, found: Any, index: Any) -> Any:
        import pandas

        if self.result.names is None:
            return pandas.Series(found, index, self.result.dtype, self.result.name)
        return pandas.DataFrame(found, index, self.result.names, self.result.dtype)


@dataclass(frozen=True)
class OnArray:
    """Computes the results of a chunk of rows of an array."""

    result: RowResult
    d: int

    def __call__(self, block: Any, work: RowWork, block_info: Any = None) -> Any:
        if not len(block):
            return nothing(self.result)
        number = 0 if not block_info else block_info[0]["chunk-location"][0]
        with in_partition(number):
            return work(opened(block, self.d, None, None))
