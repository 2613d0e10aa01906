"""Text tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from mixfold.sources._file import TableFile, skip_rows


class Csv(TableFile):
    """Comma- or tab-separated files with a header line, plain or gzipped."""

    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".tsv", ".csv.gz", ".tsv.gz")

    def open(self) -> Any:
        with self._reader() as reader:
            return reader.schema

    def _reader(self) -> Any:
        import pyarrow.csv

        tabs = ".tsv" in "".join(self.path.suffixes)
        return pyarrow.csv.open_csv(
            self.path,
            read_options=pyarrow.csv.ReadOptions(block_size=2**22),
            parse_options=pyarrow.csv.ParseOptions(delimiter="\t" if tabs else ","),
        )

    def batches(self, start: int, length: int) -> Iterator[tuple[int, Any]]:
        with self._reader() as reader:
            yield from skip_rows(reader, start)
