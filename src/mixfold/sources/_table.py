"""Arrow tables and batches as rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
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


class Codes:
    """Values of columns that are not numbers, each by a number of its own, from 0 on.

    Numbers are given in the order in which values are first met; one object serves all files of a
    source, so that a value has the same number in each. Columns in `always` are coded even if
    they are numeric; those in `known` have these values and no others.
    """

    def __init__(
        self, always: Collection[str] = (), known: Mapping[str, Sequence[Any]] | None = None
    ) -> None:
        self.known = dict(known or {})
        self.always = frozenset([*always, *self.known])
        self.values = {name: list(values) for name, values in self.known.items()}
        self._numbers = {name: dict(_counted(values)) for name, values in self.known.items()}

    def codes(self, name: str, array: Any) -> np.ndarray:
        """The numbers of an Arrow array of values of column `name`."""
        pa = arrow()
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        known = self._numbers.setdefault(name, {})
        values = self.values.setdefault(name, [])
        found = array.dictionary.to_pylist()
        indices = np.asarray(array.indices.to_numpy(zero_copy_only=False))
        numbers = np.zeros(len(found))
        for i in np.unique(indices):
            if found[i] not in known:
                if name in self.known:
                    levels = ", ".join(map(str, self.known[name]))
                    raise SourceError(
                        f"column {name!r} has {found[i]!r}, which was not there in learning; "
                        f"known are {levels}"
                    )
                known[found[i]] = len(values)
                values.append(found[i])
            numbers[i] = known[found[i]]
        return np.take(numbers, indices)


def _counted(values: Sequence[Any]) -> Iterator[tuple[Any, int]]:
    return ((value, i) for i, value in enumerate(values))


class Selection:
    """Which columns of a schema are data and which one, if any, is the weight.

    Data are numeric; with `codes`, other columns are too.
    """

    def __init__(
        self,
        schema: Any,
        columns: Sequence[str] | None,
        weight: str | None,
        place: str,
        codes: Codes | None = None,
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
            if codes is None or name == weight:
                _check_numeric(schema.field(name), place)
        if not columns:
            raise SourceError(f"{place} has no columns")
        self.columns, self.weight, self.place, self.wanted = list(columns), weight, place, wanted
        self.codes, self.coded = codes, coded_columns(schema, self.columns, codes)
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
            if name in self.coded:
                assert self.codes is not None
                target[: len(chunk)] = self.codes.codes(name, chunk)
            else:
                target[: len(chunk)] = _values(chunk)
            target = target[len(chunk) :]


def coded_columns(schema: Any, columns: Sequence[str], codes: Codes | None) -> set[str]:
    """Those columns whose values are to be replaced by numbers."""
    if codes is None:
        return set()
    text = (name for name in columns if not is_numeric(schema.field(name).type))
    coded = {*text, *codes.always.intersection(columns)}
    for name in coded:
        codes.values.setdefault(name, [])
    return coded


def _values(array: Any) -> np.ndarray:
    """An Arrow array without nulls, as it lies in memory."""
    pa = arrow()
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    return np.from_dlpack(array)


def is_numeric(kind: Any) -> bool:
    """Whether an Arrow type is one of numbers, or yes and no."""
    types = arrow().types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _check_numeric(field: Any, place: str) -> None:
    types = arrow().types
    if types.is_null(field.type):
        raise SourceError(f"{place}: column {field.name!r} has no values; at least one is needed")
    if not is_numeric(field.type):
        raise SourceError(
            f"{place}: column {field.name!r} is {field.type}, not numeric; "
            "choose numeric columns by name"
        )
