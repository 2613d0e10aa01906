"""Text tables."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, ClassVar

from mixfold.sources._file import TableFile, skip_rows
from mixfold.sources._table import is_numeric

BLOCK, LONGEST = 2**22, 2**28
ROWS_PER_BLOCK = 4
WIDE = 1000


class Csv(TableFile):
    """Comma- or tab-separated files with a header line, plain or gzipped."""

    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".tsv", ".csv.gz", ".tsv.gz")

    def open(self) -> Any:
        import pyarrow.csv

        header, row = self._first_lines()
        self._block = min(LONGEST, max(BLOCK, ROWS_PER_BLOCK * max(len(header), len(row))))
        names = _names(header, self._delimiter)
        if len(names) >= WIDE:  # finding the type of a column takes much longer than reading it
            numbers = dict.fromkeys(names, pyarrow.float64())
            with (
                suppress(pyarrow.ArrowInvalid, StopIteration),
                self._reader(pyarrow.csv.ConvertOptions(column_types=numbers)) as reader,
            ):
                first = reader.read_next_batch()
                if not any(column.null_count for column in first.columns):
                    return reader.schema
        with self._reader(pyarrow.csv.ConvertOptions()) as reader:
            return reader.schema

    @property
    def _delimiter(self) -> str:
        return "\t" if ".tsv" in "".join(self.path.suffixes) else ","

    def _first_lines(self) -> tuple[bytes, bytes]:
        """The header and the first row, as far as they are within reach."""
        import pyarrow

        found = b""
        with pyarrow.input_stream(str(self.path)) as file:
            while found.count(b"\n") < 2 and len(found) < LONGEST and (more := file.read(BLOCK)):
                found += more
        header, _, rest = found.partition(b"\n")
        return header, rest.partition(b"\n")[0]

    def _reader(self, convert: Any) -> Any:
        import pyarrow.csv

        return pyarrow.csv.open_csv(
            self.path,
            read_options=pyarrow.csv.ReadOptions(block_size=self._block),
            parse_options=pyarrow.csv.ParseOptions(delimiter=self._delimiter),
            convert_options=convert,
        )

    def batches(self, start: int, length: int) -> Iterator[tuple[int, Any]]:
        import pyarrow.csv

        # a column that begins with whole numbers need not go on with them
        numbers = {n: t for n, t in self.selection.types.items() if t != pyarrow.bool_()}
        types = {
            n: pyarrow.float64() if is_numeric(t) else pyarrow.string() for n, t in numbers.items()
        }
        wanted = self.selection.wanted
        convert = pyarrow.csv.ConvertOptions(
            include_columns=wanted,
            column_types=types,
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        with self._reader(convert) as reader:
            yield from skip_rows(reader, start)


def _names(header: bytes, delimiter: str) -> list[str]:
    """The names in a header line; a name that is read otherwise by Arrow does no harm."""
    try:
        return next(csv.reader([header.decode("utf-8-sig").rstrip("\r")], delimiter=delimiter), [])
    except (csv.Error, UnicodeDecodeError):
        return []
