"""Results for the rows of Spark DataFrames, as further columns or as one sum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from mixfold.core.engine import RowResult, RowWork, tree
from mixfold.core.errors import InvalidInputError
from mixfold.core.source import Source
from mixfold.engines._spark_columns import PLACE, Reader, reader_of
from mixfold.engines._spark_errors import on_spark
from mixfold.engines._spark_tasks import STATES, states, told
from mixfold.sources.optional_arrow import arrow
from mixfold.sources.table import Codes

DENSE = 1  # the type of dense vectors as Spark stores them
VECTOR, DOUBLES, DOUBLE, INT = "vector", "array<double>", "double", "int"


class Columns(Protocol):
    """Computes columns from rows; `kinds` are their types, by name."""

    @property
    def kinds(self) -> Mapping[str, str]:
        """INT, DOUBLE, and for several numbers per row DOUBLES or VECTOR."""

    def __call__(self, rows: Source) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class OneColumn:
    """The column of a result of rows."""

    work: RowWork
    result: RowResult

    @property
    def kinds(self) -> Mapping[str, str]:
        """The type of the column: a list if there are several numbers per row."""
        number = INT if np.dtype(self.result.dtype).kind in "iu" else DOUBLE
        return {self.result.name: number if self.result.names is None else DOUBLES}

    def __call__(self, rows: Source) -> Mapping[str, Any]:
        return {self.result.name: self.work(rows)}


def with_columns(
    data: Any, work: Columns, columns: Sequence[str] | None, codes: Codes | None
) -> Any:
    """The DataFrame with the columns that `work` computes."""
    from pyspark.sql.types import StructField, StructType

    there = [name for name in work.kinds if name in data.columns]
    if there:
        raise InvalidInputError(
            f"{PLACE} has a column {there[0]!r} already: rename it, or drop it first, "
            f"df.drop({there[0]!r})"
        )
    reader = reader_of(data, columns, None, codes)
    more = [StructField(name, _spark_type(kind), False) for name, kind in work.kinds.items()]
    schema = StructType([*data.schema.fields, *more])
    return data.mapInArrow(partial(append, reader, work), schema)


def append(reader: Reader, work: Columns, batches: Iterable[Any]) -> Iterator[Any]:
    """Batches with the columns that `work` computes from each."""
    for batch in batches:
        if batch.num_rows:
            found = work(reader(batch))
            more = [_arrow_column(found[name], kind) for name, kind in work.kinds.items()]
            names = [*batch.schema.names, *work.kinds]
            yield arrow().RecordBatch.from_arrays([*batch.columns, *more], names=names)


def summed(data: Any, work: RowWork, columns: Sequence[str] | None, codes: Codes | None) -> Any:
    """The sum of `work` over all rows, added in the order of the partitions."""
    with on_spark():
        reader = reader_of(data, columns, None, codes)
        rows = data.mapInArrow(partial(add, reader, work), STATES).collect()
    found = [part for _, part in told(rows)]
    return tree(found, sum) if found else 0.0


def add(reader: Reader, work: RowWork, batches: Iterable[Any]) -> Iterator[Any]:
    """The sum of `work` over the rows of a partition."""
    from pyspark import TaskContext

    def found() -> Iterator[tuple[int, Any]]:
        context = TaskContext.get()
        assert context is not None
        parts = [work(reader(batch)) for batch in batches if batch.num_rows]
        if parts:
            yield context.partitionId(), sum(parts)

    return states(found())


def _spark_type(kind: str) -> Any:
    from pyspark.sql.types import ArrayType, DoubleType, IntegerType

    if kind == VECTOR:
        from pyspark.ml.linalg import VectorUDT

        return VectorUDT()
    known = {INT: IntegerType(), DOUBLE: DoubleType(), DOUBLES: ArrayType(DoubleType())}
    return known[kind]


def _arrow_column(found: Any, kind: str) -> Any:
    pa = arrow()
    if kind in (INT, DOUBLE):
        return pa.array(np.asarray(found), pa.int32() if kind == INT else pa.float64())
    x = np.ascontiguousarray(found, dtype=np.float64)
    n, k = x.shape
    ends = pa.array(np.arange(n + 1) * k, pa.int32())
    lists = pa.ListArray.from_arrays(ends, pa.array(x.reshape(-1)))
    if kind == DOUBLES:
        return lists
    kinds = pa.array(np.full(n, DENSE), pa.int8())
    none, nowhere = pa.nulls(n, pa.int32()), pa.nulls(n, pa.list_(pa.int32()))
    return pa.StructArray.from_arrays(
        [kinds, none, nowhere, lists], names=["type", "size", "indices", "values"]
    )
