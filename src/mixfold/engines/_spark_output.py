"""Columns that executors compute from the rows of a Spark DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from mixfold.core.errors import InvalidInputError
from mixfold.engines._spark_columns import (
    PLACE,
    Reader,
    TableReader,
    quoted,
    reader_of,
)
from mixfold.sources.optional_arrow import arrow
from mixfold.sources.table import Codes

Find = Callable[[Any], Mapping[str, Any]]
DENSE = 1  # the type of dense vectors as Spark stores them


def with_columns(
    data: Any, columns: Sequence[str] | None, kinds: Mapping[str, str], find: Find
) -> Any:
    """The DataFrame with columns that `find` computes."""
    from pyspark.sql.types import StructField, StructType

    there = [name for name in kinds if name in data.columns]
    if there:
        raise InvalidInputError(
            f"{PLACE} has a column {there[0]!r} already: rename it, or drop it first, "
            f"df.drop({there[0]!r})"
        )
    # columns are not read as numbers here: the model does that on the executors
    reader = reader_of(data, columns, None, Codes(missing=True, dates=True))
    more = [StructField(name, _spark_type(kind), False) for name, kind in kinds.items()]
    schema = StructType([*data.schema.fields, *more])
    return data.mapInArrow(partial(append, reader, dict(kinds), find), schema)


def append(
    reader: Reader, kinds: Mapping[str, str], find: Find, batches: Iterable[Any]
) -> Iterator[Any]:
    """Batches with the columns that `find` computes from each."""
    for batch in batches:
        if not batch.num_rows:
            continue
        if isinstance(reader, TableReader):
            found = find(arrow().Table.from_batches([batch]).select(reader.names))
        else:
            found = find(reader(batch))
        more = [_arrow_column(found[name], kind) for name, kind in kinds.items()]
        yield arrow().RecordBatch.from_arrays(
            [*batch.columns, *more], names=[*batch.schema.names, *kinds]
        )


def _spark_type(kind: str) -> Any:
    from pyspark.sql.types import ArrayType, DoubleType, IntegerType

    if kind == "vector":
        from pyspark.ml.linalg import VectorUDT

        return VectorUDT()
    known = {"int": IntegerType(), "double": DoubleType(), "doubles": ArrayType(DoubleType())}
    return known[kind]


def _arrow_column(found: Any, kind: str) -> Any:
    pa = arrow()
    if kind in ("int", "double"):
        return pa.array(np.asarray(found), pa.int32() if kind == "int" else pa.float64())
    x = np.ascontiguousarray(found, dtype=np.float64)
    n, k = x.shape
    ends = pa.array(np.arange(n + 1) * k, pa.int32())
    lists = pa.ListArray.from_arrays(ends, pa.array(x.reshape(-1)))
    if kind == "doubles":
        return lists
    kinds = pa.array(np.full(n, DENSE), pa.int8())
    none, nowhere = pa.nulls(n, pa.int32()), pa.nulls(n, pa.list_(pa.int32()))
    return pa.StructArray.from_arrays(
        [kinds, none, nowhere, lists], names=["type", "size", "indices", "values"]
    )


def mean_of(data: Any, column: str) -> float:
    """The mean of a column."""
    from pyspark.sql import functions as f

    found = data.select(f.avg(quoted(column))).first()[0]
    if found is None:
        raise InvalidInputError(f"{PLACE} has no rows: at least one is needed")
    return float(found)
