"""Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from mixfold.sources._file import TableFile


class Parquet(TableFile):
    """Row groups are decoded a batch at a time, so memory is bounded by the batch."""

    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".pq")

    def open(self) -> Any:
        import pyarrow.parquet

        with pyarrow.parquet.ParquetFile(self.path) as file:
            self.metadata = file.metadata
            return file.schema_arrow

    @property
    def length(self) -> int:
        return int(self.metadata.num_rows)

    def batches(self, start: int, length: int) -> Iterator[tuple[int, Any]]:
        import pyarrow.parquet

        first, group = 0, 0
        sizes = [self.metadata.row_group(i).num_rows for i in range(self.metadata.num_row_groups)]
        while group < len(sizes) and first + sizes[group] <= start:
            first += sizes[group]
            group += 1
        with pyarrow.parquet.ParquetFile(self.path) as file:
            groups = range(group, len(sizes))
            wanted = self.selection.wanted
            for batch in file.iter_batches(length, row_groups=groups, columns=wanted):
                yield first, batch
                first += batch.num_rows
