"""Arrow tables and batches as rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mixfold.core.errors import MissingExtraError, SourceError
from mixfold.core.rows import Rows


def arrow() -> Any:
    """pyarrow, or an error that says how to get it."""
    try:
        import pyarrow
        import pyarrow.compute
    except ImportError:
        raise MissingExtraError("pyarrow", "files", "reading files and Arrow tables") from None
    return pyarrow


class Selection:
    """Which columns of a schema are data and which one, if any, is the weight."""

    def __init__(
        self, schema: Any, columns: Sequence[str] | None, weight: str | None, place: str
    ) -> None:
        known = list(schema.names)
        if columns is None:
            columns = [name for name in known if name != weight]
        wanted = [*columns, *([weight] if weight else [])]
        missing = [name for name in wanted if name not in known]
        if missing:
            raise SourceError(
                f"{place} has no column {missing[0]!r}; its columns are {', '.join(known)}"
            )
        for name in wanted:
            if wanted.count(name) > 1 or known.count(name) > 1:
                raise SourceError(f"{place}: column {name!r} appears twice; name each one once")
            _check_numeric(schema.field(name), place)
        if not columns:
            raise SourceError(f"{place} has no columns")
        self.columns, self.weight, self.place, self.wanted = list(columns), weight, place, wanted
        floats = arrow().types
        narrow = (floats.is_float32, floats.is_float16)
        self.types = {name: schema.field(name).type for name in wanted}
        types = [self.types[name] for name in self.columns]
        self.dtype = np.float32 if all(any(f(t) for f in narrow) for t in types) else np.float64

    def rows(self, batch: Any, first_row: int) -> Rows:
        """Rows of a batch or table; stored column by column, which kernels do not mind."""
        x = np.empty((len(self.columns), batch.num_rows), dtype=self.dtype)
        for target, name in zip(x, self.columns, strict=True):
            self._copy(batch, name, first_row, target)
        if self.weight is None:
            return Rows(x.T)
        weight = np.empty(batch.num_rows)
        self._copy(batch, self.weight, first_row, weight)
        return Rows(x.T, weight)

    def _copy(self, batch: Any, name: str, first_row: int, target: np.ndarray) -> None:
        column = batch.column(name)
        if column.null_count:
            nulls = arrow().compute.indices_nonzero(column.is_null())
            raise SourceError(
                f"{self.place}: column {name!r} has a missing value in row "
                f"{first_row + nulls[0].as_py()}; fill or drop missing values first"
            )
        for chunk in getattr(column, "chunks", [column]):
            target[: len(chunk)] = _values(chunk)
            target = target[len(chunk) :]


def _values(array: Any) -> np.ndarray:
    """An Arrow array without nulls, as it lies in memory."""
    pa = arrow()
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    return np.from_dlpack(array)


def _check_numeric(field: Any, place: str) -> None:
    types = arrow().types
    if types.is_null(field.type):
        raise SourceError(f"{place}: column {field.name!r} has no values; at least one is needed")
    if not (
        types.is_integer(field.type)
        or types.is_floating(field.type)
        or types.is_boolean(field.type)
    ):
        raise SourceError(
            f"{place}: column {field.name!r} is {field.type}, not numeric; "
            "choose numeric columns by name"
        )
