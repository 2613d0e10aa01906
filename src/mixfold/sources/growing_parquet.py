"""Parquet files in a folder to which files are added."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mixfold.core.errors import SourceError
from mixfold.core.growing_source import Arrived, FilePosition, GrowingPosition, GrowingSource
from mixfold.sources._column_types import stream_type, type_named
from mixfold.sources._reading import reading
from mixfold.sources.optional_arrow import arrow
from mixfold.sources.table import Selection, check_names

MAGIC = b"PAR1"  # the last bytes of a complete file


class GrowingParquet(GrowingSource):
    """A Parquet file that may still be being written: it is read when it is complete."""

    def __init__(
        self, path: str | Path, columns: Sequence[str] | None = None, numbers: bool = True
    ) -> None:
        self.path, self.name = Path(path), str(path)
        self._columns, self._numbers = columns, numbers
        self._types: dict[str, Any] = {}
        self._read, self._complete = 0, False
        self._parts: Iterator[Any] | None = None

    def poll(self, most: int) -> Arrived | None:
        if not self._complete and not self._is_complete():
            return None
        self._complete = True
        with reading(self.path):
            if self._parts is None:
                self._parts = self._tables(max(most, 1))
            table = next(self._parts, None)
        if table is None:
            return None
        self._read += len(table)
        return Arrived(table)

    def _is_complete(self) -> bool:
        with reading(self.path), self.path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - len(MAGIC)))
            return file.read() == MAGIC and size > 2 * len(MAGIC)

    def _tables(self, length: int) -> Iterator[Any]:
        """The rows that are not read yet, as tables of the same types."""
        import pyarrow.parquet

        skip = self._read
        with pyarrow.parquet.ParquetFile(self.path) as file:
            self._know(file.schema_arrow)
            for batch in file.iter_batches(length, columns=[*self._types]):
                some, skip = batch.slice(skip), max(0, skip - len(batch))
                if len(some):
                    yield self._as_before(arrow().Table.from_batches([some]))

    def _know(self, schema: Any) -> None:
        """Find the columns, or check that the file has those that are known."""
        names = [*self._types] or self._columns or schema.names
        if self._numbers:
            Selection(schema, names, None, self.name)  # says which column is not numeric
        check_names(schema.names, names, self.name)
        if not self._types:
            kinds = {name: schema.field(name).type for name in names}
            self._types = {name: self._type(kind) for name, kind in kinds.items()}

    def _type(self, kind: Any) -> Any:
        if self._numbers:
            return arrow().float64()
        if arrow().types.is_dictionary(kind):
            kind = kind.value_type
        return stream_type(kind, [])

    def _as_before(self, table: Any) -> Any:
        """The table with the columns and types of the files before."""
        columns = []
        for name, kind in self._types.items():
            try:
                columns.append(table[name].cast(kind))
            except (arrow().ArrowException, ValueError) as error:
                raise SourceError(
                    f"{self.name}: column {name!r} is {table[name].type}, unlike in the files "
                    f"before, where it is {kind} ({str(error).splitlines()[0]})"
                ) from None
        return arrow().table(columns, names=[*self._types])

    @property
    def position(self) -> GrowingPosition:
        here = FilePosition(self.name, self._read, self._read, 0, "")
        kinds = [str(kind) for kind in self._types.values()]
        return GrowingPosition([*self._types], kinds, self._read, [here])

    def seek(self, position: GrowingPosition) -> None:
        self.close()
        types = zip(position.columns, position.types, strict=True)
        self._types = {name: type_named(text) for name, text in types}
        self._read = position.files[0].offset

    def waiting(self) -> str | None:
        return None if self._complete else f"{self.name} is not complete yet"

    def close(self) -> None:
        self._parts = None
