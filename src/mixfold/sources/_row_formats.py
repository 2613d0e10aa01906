"""Lines and records as Arrow tables, each with the columns and types of the first ones."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from mixfold.core.errors import SourceError
from mixfold.core.growing_source import BadRow, in_good_parts
from mixfold.sources._column_types import stream_type, type_named, type_of_values
from mixfold.sources._csv_lines import FirstLines, check_delimiter, check_header
from mixfold.sources.csv_files import CsvOptions
from mixfold.sources.optional_arrow import arrow
from mixfold.sources.table import check_names, listed

SHOWN = 80  # characters of a line in a message


class RowFormat(ABC):
    """How rows are written. `types` are those of the columns that are read, in their order.

    With `numbers` all columns are numbers, and a row with other values is a bad one; otherwise the
    first rows tell the types.
    """

    def __init__(self, place: str, columns: Sequence[str] | None, numbers: bool) -> None:
        self.place, self.columns = place, None if columns is None else list(columns)
        self.numbers = numbers
        self.types: dict[str, Any] = {}

    def begin(self, lines: Sequence[bytes], whole: bool = False) -> int | None:
        """How many lines come before the first row; None if more must be seen to tell.

        If the lines are the `whole` of what there is, they have to do.
        """
        return 0

    def know(self, columns: Sequence[str], types: Sequence[str]) -> None:
        """Use the columns and types that an earlier source of the same rows had."""
        self.columns = list(columns)
        self.types = {n: type_named(t) for n, t in zip(columns, types, strict=True)}

    def read(
        self, items: Sequence[Any], place: Callable[[int], str]
    ) -> tuple[Any, Sequence[BadRow]]:
        """The table of those items that can be read, None without any, and the other ones."""
        if not self.types:
            self.types = self.find_types(items)
        if not self.types:
            return None, [BadRow(place(i), "it has no columns") for i in range(len(items))]
        parts: list[Any] = []
        bad = [
            BadRow(place(i), self.reason(items[i], error))
            for i, error in in_good_parts(items, lambda some: parts.append(self.table(some)))
        ]
        return (arrow().concat_tables(parts) if parts else None), bad

    @abstractmethod
    def find_types(self, items: Sequence[Any]) -> dict[str, Any]:
        """The types of the columns; none yet if no item can be read."""

    @abstractmethod
    def table(self, items: Sequence[Any]) -> Any:
        """The items as a table of as many rows; an error if one cannot be read."""

    @abstractmethod
    def reason(self, item: Any, error: Exception) -> str:
        """Why an item cannot be read."""

    def _schema(self) -> Any:
        return arrow().schema([*self.types.items()])


class Records(RowFormat):
    """Dicts of columns: those of the first one, or those that are named.

    A column that another record lacks is missing there, and its other columns are left out.
    """

    def find_types(self, items: Sequence[Any]) -> dict[str, Any]:
        records = [item for item in items if isinstance(item, dict)]
        if not records:
            return {}
        wanted = self.columns if self.columns is not None else [*map(str, records[0])]
        if self.numbers:
            return dict.fromkeys(wanted, arrow().float64())
        return {name: type_of_values([r.get(name) for r in records]) for name in wanted}

    def table(self, items: Sequence[Any]) -> Any:
        for item in items:
            if not isinstance(item, dict):
                raise SourceError("it is no record of columns")
            if self.types.keys().isdisjoint(item):
                raise SourceError(f"it has none of the columns {listed([*self.types])}")
        return arrow().Table.from_pylist(list(items), schema=self._schema())

    def reason(self, item: Any, error: Exception) -> str:
        if isinstance(item, dict):
            for name, kind in self.types.items():
                try:
                    arrow().array([item.get(name)], type=kind)
                except (ValueError, TypeError, OverflowError):
                    return f"column {name!r} has {_short(repr(item.get(name)))}, which is no {kind}"
        return _short(str(error))


class JsonLines(Records):
    """A record per line."""

    def find_types(self, items: Sequence[bytes]) -> dict[str, Any]:
        found: list[Any] = []
        for _ in in_good_parts(items, lambda some: found.extend(map(json.loads, some))):
            pass
        return super().find_types(found)

    def table(self, items: Sequence[bytes]) -> Any:
        return super().table([json.loads(line) for line in items])

    def reason(self, item: bytes, error: Exception) -> str:
        try:
            return super().reason(json.loads(item), error)
        except (ValueError, RecursionError) as wrong:
            return f"{_short(item.decode(errors='replace'))!r} is no JSON: {_short(str(wrong))}"


class CsvLines(RowFormat):
    """Cells between delimiters, under a header."""

    def __init__(
        self,
        place: str,
        columns: Sequence[str] | None,
        numbers: bool,
        options: CsvOptions,
        delimiter: str,
    ) -> None:
        super().__init__(place, columns, numbers)
        self._options, self._delimiter = options, delimiter
        self._names: list[str] = []
        self._header = b""
        if b"\n" not in "\n".encode(options.encoding) or len("\n".encode(options.encoding)) > 1:
            raise SourceError(
                f"{place}: a file in {options.encoding} cannot be followed line by line: write it "
                "in utf8"
            )

    def begin(self, lines: Sequence[bytes], whole: bool = False) -> int | None:
        options = self._options
        numbers = [i for i, line in enumerate(lines) if i >= options.skip_rows and line.strip()]
        given, has_header = options.column_names, options.header
        if has_header is None:
            has_header = given is None
        if len(numbers) < 2 and not (numbers and (whole or given or options.header is not None)):
            return None
        texts = [lines[i].decode(options.encoding, "replace") for i in numbers[:2]]
        texts = [text.removeprefix("\ufeff").rstrip("\r") for text in [*texts, ""]][:2]
        first = FirstLines(texts, self._delimiter, options.quote_char)
        if len(numbers) > 1:
            place: Any = self.place
            check_delimiter(place, first, options)
            check_header(place, first, options, self.columns)
        cells = first.cells(0)
        names = [f"f{j}" for j in range(len(cells))] if not has_header else cells
        self._names = list(given or names)
        self._header = lines[numbers[0]] if has_header else b""
        check_names(self._names, self._wanted(), self.place)
        return numbers[0] + int(has_header)

    def _wanted(self) -> list[str]:
        """The columns that are read; not the unnamed one of row numbers that `to_csv` writes."""
        if self.columns is not None:
            return self.columns
        if self.types:
            return [*self.types]
        return self._names[1:] if len(self._names) > 1 and not self._names[0] else self._names

    def find_types(self, items: Sequence[bytes]) -> dict[str, Any]:
        if self.numbers:
            return dict.fromkeys(self._wanted(), arrow().float64())
        found, given = list[Any](), self._options.types()
        for _ in in_good_parts(items, lambda some: found.append(self._read(some, {}))):
            pass
        if not found:
            return {}
        table = arrow().concat_tables(found, promote_options="permissive")
        return {
            n: given.get(n) or stream_type(table.schema.field(n).type, table[n].to_pylist())
            for n in self._wanted()
        }

    def table(self, items: Sequence[bytes]) -> Any:
        rows = [line for line in items if line != self._header]  # of files that were joined
        return self._read(rows, self.types) if rows else self._schema().empty_table()

    def _read(self, lines: Sequence[bytes], types: dict[str, Any]) -> Any:
        import pyarrow.csv

        table = pyarrow.csv.read_csv(
            arrow().BufferReader(b"\n".join(lines) + b"\n"),
            read_options=pyarrow.csv.ReadOptions(
                column_names=self._names,
                encoding=self._options.encoding,
                use_threads=False,
                block_size=sum(map(len, lines)) + len(lines) + 1,
            ),
            parse_options=self._options.parsing(self._delimiter),
            convert_options=self._options.conversion(
                include_columns=self._wanted(),
                column_types=types or self._options.types(),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        if table.num_rows != len(lines):
            raise SourceError("a quoted cell goes on in the next line")
        return table

    def reason(self, item: bytes, error: Exception) -> str:
        text = item.decode(self._options.encoding, "replace")
        cells = FirstLines([text, ""], self._delimiter, self._options.quote_char).cells(0)
        if len(cells) != len(self._names):
            return f"{_short(text)!r} has {len(cells)} cells: {len(self._names)} are needed"
        for name, kind in self.types.items():
            cell = cells[self._names.index(name)]
            if kind == arrow().float64() and not self._is_number(cell):
                return f"column {name!r} has {_short(cell)!r}, which is not a number"
        return f"{_short(text)!r}: {_short(str(error))}"

    def _is_number(self, cell: str) -> bool:
        if cell in self._options.missing():
            return True
        try:
            float(cell.replace(self._options.decimal_point, "."))
        except ValueError:
            return False
        return True


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
