"""Text tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from mixfold.sources._file import TableFile, skip_rows
from mixfold.sources._table import is_numeric


class Csv(TableFile):
    """Comma- or tab-separated files with a header line, plain or gzipped."""

    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".tsv", ".csv.gz", ".tsv.gz")

    def open(self) -> Any:
        import pyarrow.csv

        with self._reader(pyarrow.csv.ConvertOptions()) as reader:
            return reader.schema

    def _reader(self, convert: Any) -> Any:
        import pyarrow.csv

        tabs = ".tsv" in "".join(self.path.suffixes)
        return pyarrow.csv.open_csv(
            self.path,
            read_options=pyarrow.csv.ReadOptions(block_size=2**22),
            parse_options=pyarrow.csv.ParseOptions(delimiter="\t" if tabs else ","),
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
