"""Columns of files that are copied beside what is computed from their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mixfold.core.errors import SourceError
from mixfold.core.source import Source, block_length
from mixfold.sources._file import TableFile
from mixfold.sources._reading import reading
from mixfold.sources.concatenated import Concatenated
from mixfold.sources.optional_arrow import arrow


class KeptColumns:
    """Values of some columns as the files of a source have them, in the order of their rows.

    Text stays text, and columns of whole numbers, dates or categories keep their values too.
    """

    def __init__(self, source: Source, names: Sequence[str]) -> None:
        parts = source.parts if isinstance(source, Concatenated) else [source]
        self._files = [_with_columns(part, names) for part in parts]
        self._types = {name: _type_of(self._files[0], name) for name in names}
        for file in self._files[1:]:
            for name, kind in self._types.items():
                if _type_of(file, name) != kind:
                    raise SourceError(
                        f"{file.path}: column {name!r} is {_type_of(file, name)}, and it is {kind} "
                        f"in {self._files[0].path}: store it the same way in all files, or give it "
                        "a type with column_types={...} (--column-type)"
                    )
        self._batches = self._read()
        self._waiting: list[Any] = []

    def _read(self) -> Iterator[Any]:
        for file in self._files:
            with reading(file.path):
                for _, batch in file.batches(0, block_length(len(self._types))):
                    yield batch

    def take(self, n: int) -> dict[str, Any]:
        """The next n rows, an Arrow array for each column."""
        have = sum(batch.num_rows for batch in self._waiting)
        while have < n:
            batch = next(self._batches, None)
            if batch is None:
                raise SourceError(f"{self._files[-1].path} has become shorter while it was read")
            self._waiting.append(self._plain(batch))
            have += batch.num_rows
        whole = arrow().Table.from_batches(self._waiting)
        self._waiting = whole.slice(n).to_batches()
        return {name: whole.column(name).slice(0, n) for name in self._types}

    def _plain(self, batch: Any) -> Any:
        """A batch with the values of categories in place of their numbers."""
        columns = [batch.column(name).cast(kind) for name, kind in self._types.items()]
        return arrow().RecordBatch.from_arrays(columns, list(self._types))


def _with_columns(part: Source, names: Sequence[str]) -> TableFile:
    if not isinstance(part, TableFile):
        place = getattr(part, "path", type(part).__name__)
        raise SourceError(f"{place} has no column {names[0]!r}: its columns have no names")
    return part.with_columns(names)


def _type_of(file: TableFile, name: str) -> Any:
    """The type of the values of a column."""
    types, kind = arrow().types, file.selection.types[name]
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_null(kind):
        return arrow().string()
    if types.is_nested(kind):
        raise SourceError(
            f"{file.path}: column {name!r} is {kind}, and one value a row is needed: leave it out"
        )
    return kind
