"""Parquet files."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, ClassVar

from mixfold.sources._file import TableFile


class Parquet(TableFile):
    """Row groups are decoded a batch at a time, so memory is bounded by the batch."""

    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".pq")

    def open(self) -> Any:
        import pyarrow.parquet

        with pyarrow.parquet.ParquetFile(self.path, pre_buffer=False) as file:
            self.metadata = file.metadata
            return file.schema_arrow

    @property
    def length(self) -> int:
        return int(self.metadata.num_rows)

    def anchors(self) -> list[int]:
        groups = range(self.metadata.num_row_groups)
        return [0, *accumulate(self.metadata.row_group(i).num_rows for i in groups)][:-1]

    def batches(self, start: int, length: int) -> Iterator[tuple[int, Any]]:
        import pyarrow.parquet

        anchors = self.anchors()
        group = max(0, bisect_right(anchors, start) - 1)
        first = anchors[group] if anchors else 0
        with pyarrow.parquet.ParquetFile(self.path, pre_buffer=False) as file:
            groups = range(group, len(anchors))
            wanted = self.selection.wanted
            for batch in file.iter_batches(length, row_groups=groups, columns=wanted):
                yield first, batch
                first += batch.num_rows
