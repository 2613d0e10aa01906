"""Which columns of a Spark DataFrame are the data: columns of numbers, or one of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixfold.core.errors import InvalidInputError, SourceError
from mixfold.core.source import Source
from mixfold.sources.array_source import ArraySource
from mixfold.sources.opening import open_table
from mixfold.sources.optional_arrow import arrow
from mixfold.sources.table import Codes, Selection, check_names, listed

PLACE = "the Spark DataFrame"
SPLIT = "pyspark.ml.functions.vector_to_array and its elements make columns of a vector"
JOIN = "pyspark.ml.feature.VectorAssembler makes one vector of all columns"


@dataclass(frozen=True)
class TableReader:
    """Reads columns of numbers, or of values that `codes` make numbers."""

    names: list[str]
    weight: str | None
    codes: Codes | None

    @property
    def d(self) -> int:
        """The number of columns of the rows."""
        return len(self.names)

    @property
    def read(self) -> list[str]:
        """The columns of the DataFrame that are read."""
        return [*self.names, *([self.weight] if self.weight else [])]

    def __call__(self, batch: Any) -> Source:
        table = arrow().Table.from_batches([batch])
        return open_table(table, self.names, self.weight, self.codes)


@dataclass(frozen=True)
class VectorReader:
    """Reads a column of vectors, dense or sparse, or of lists of numbers."""

    column: str
    d: int
    weight: str | None

    @property
    def names(self) -> list[str]:
        """Names of the elements."""
        return [element(self.column, i) for i in range(self.d)]

    @property
    def read(self) -> list[str]:
        """The columns of the DataFrame that are read."""
        return [self.column, *([self.weight] if self.weight else [])]

    def __call__(self, batch: Any) -> Source:
        x = vectors(batch.column(self.column), self.d, self.column)
        if self.weight is None:
            return ArraySource(x, None, self.names)
        weights = arrow().Table.from_batches([batch.select([self.weight])])
        return ArraySource(x, open_table(weights, None, None).x[:, 0], self.names)


Reader = TableReader | VectorReader


def element(column: str, i: int) -> str:
    """The name of an element of a column of vectors."""
    return f"{column}[{i}]"


def vectors(array: Any, d: int, column: str) -> np.ndarray:
    """An Arrow array of vectors or lists as rows of numbers."""
    if array.null_count:
        raise SourceError(
            f"column {column!r} has a missing vector: drop such rows with "
            f"df.dropna(subset=[{column!r}])"
        )
    if not arrow().types.is_struct(array.type):
        return _lists(array, d, column)
    dense = np.asarray(array.field("type").to_numpy(zero_copy_only=False)) == 1
    if dense.all():
        return _lists(array.field("values"), d, column)
    x = np.zeros((len(array), d))
    if dense.any():
        x[dense] = _lists(array.field("values").filter(arrow().array(dense)), d, column)
    _scatter(x, np.flatnonzero(~dense), array.filter(arrow().array(~dense)), d, column)
    return x


def _lists(array: Any, d: int, column: str) -> np.ndarray:
    lengths = np.asarray(array.value_lengths().to_numpy(zero_copy_only=False))
    _check_lengths(lengths, d, column)
    cells = array.flatten().cast(arrow().float64()).to_numpy(zero_copy_only=False)
    return np.asarray(cells).reshape(len(array), d)


def _scatter(x: np.ndarray, rows: np.ndarray, sparse: Any, d: int, column: str) -> None:
    """Write sparse vectors to some rows."""
    _check_lengths(np.asarray(sparse.field("size").to_numpy(zero_copy_only=False)), d, column)
    indices = sparse.field("indices")
    counts = np.asarray(indices.value_lengths().to_numpy(zero_copy_only=False))
    x[np.repeat(rows, counts), indices.flatten().to_numpy(zero_copy_only=False)] = (
        sparse.field("values").flatten().to_numpy(zero_copy_only=False)
    )


def _check_lengths(lengths: np.ndarray, d: int, column: str) -> None:
    other = np.flatnonzero(lengths != d)
    if len(other):
        raise SourceError(
            f"column {column!r} has a vector of {int(lengths[other[0]])} numbers, others have {d}: "
            "vectors of one length are needed"
        )


def reader_of(
    data: Any, columns: Sequence[str] | None, weight: str | None, codes: Codes | None
) -> Reader:
    """The reader of a DataFrame; names and types that cannot be read are refused."""
    kinds = {field.name: field.dataType for field in data.schema.fields}
    if columns is None:
        columns = [name for name in data.columns if name != weight]
    vector = _whole_vector(columns, kinds)
    columns = columns if vector is None else [vector]
    check_names(data.columns, [*columns, *([weight] if weight else [])], PLACE)
    some = [name for name in columns if is_vector(kinds[name])]
    if not some:
        Selection(_schema(data, [*columns]), columns, None, PLACE, codes)
        _check_weight(data, weight)
        return TableReader(list(columns), weight, codes)
    if len(columns) > 1:
        other = [name for name in columns if name != some[0]]
        raise InvalidInputError(
            f"column {some[0]!r} of {PLACE} holds vectors, and there are other columns too "
            f"({listed(other)}): choose the vectors alone with columns=[{some[0]!r}], or leave "
            f"them out; {JOIN}; {SPLIT}"
        )
    _check_weight(data, weight)
    return VectorReader(some[0], _length(data, some[0]), weight)


def _whole_vector(columns: Sequence[str], kinds: dict[str, Any]) -> str | None:
    """The column of vectors whose elements, by name, are the columns."""
    name, bracket, _ = (columns[0] if len(columns) else "").rpartition("[")
    if not bracket or columns[0] in kinds or not is_vector(kinds.get(name)):
        return None
    return name if list(columns) == [element(name, i) for i in range(len(columns))] else None


def _check_weight(data: Any, weight: str | None) -> None:
    if weight is not None:
        Selection(_schema(data, [weight]), [weight], None, PLACE)


def _schema(data: Any, columns: Sequence[str]) -> Any:
    """The Arrow schema of some columns."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(data.select(*map(quoted, columns)).schema)


def empty_table(data: Any) -> Any:
    """An Arrow table without rows that has the columns of a DataFrame."""
    return _schema(data, data.columns).empty_table()


def quoted(name: str) -> str:
    """The name of a column as Spark's functions take it, even if there are dots in it."""
    return "`" + name.replace("`", "``") + "`"


def is_vector(kind: Any) -> bool:
    """Whether a Spark type is one of vectors, or of lists of numbers."""
    from pyspark.sql.types import ArrayType, NumericType

    if isinstance(kind, ArrayType):
        return isinstance(kind.elementType, NumericType)
    return type(kind).__name__ == "VectorUDT"


def _length(data: Any, column: str) -> int:
    """The length of the first vector."""
    first = data.select(quoted(column)).dropna().first()
    if first is None:
        raise InvalidInputError(f"{PLACE} has no rows: at least one is needed")
    return len(first[0])
