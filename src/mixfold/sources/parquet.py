"""Parquet files."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, ClassVar

from mixfold.core.source import cuts
from mixfold.sources._file import TableFile
from mixfold.sources.location import Location, RemoteFile
from mixfold.sources.table import Codes

FOOTER_END = 8


class Parquet(TableFile):
    """Row groups are decoded a batch at a time, so memory is bounded by the batch.

    `groups` is the range of row groups to read; None is all of them.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".pq")
    in_parallel: ClassVar[bool] = True

    def __init__(
        self,
        path: Location,
        columns: Sequence[str] | None = None,
        weight: str | None = None,
        codes: Codes | None = None,
        groups: range | None = None,
    ) -> None:
        super().__init__(path, columns, weight, codes)
        self.groups = range(self.metadata.num_row_groups) if groups is None else groups
        self._alone = groups is None  # partitions are read by many workers, so each with one thread
        lengths = (self.metadata.row_group(i).num_rows for i in self.groups)
        self._ends: list[int] = [0, *accumulate(lengths)]

    def __reduce__(self) -> Any:
        kind, settings = super().__reduce__()
        return kind, (*settings, self.groups)

    def open(self) -> Any:
        with self._file() as file:
            self.metadata = file.metadata
            return file.schema_arrow

    def _file(self) -> Any:
        import pyarrow.parquet

        if isinstance(self.path, RemoteFile):  # few large requests are faster than many small ones
            return pyarrow.parquet.ParquetFile(self.path.open_parallel(), pre_buffer=True)
        return pyarrow.parquet.ParquetFile(self.path, pre_buffer=False)

    @property
    def length(self) -> int:
        return self._ends[-1]

    def tail(self) -> int:
        """The length of the footer, which holds the positions and extremes of columns."""
        return int(self.metadata.serialized_size) + FOOTER_END

    def anchors(self) -> list[int]:
        return self._ends[:-1]

    def partitions(self, length: int | None = None) -> Sequence[Parquet]:
        """Ranges of row groups."""
        anchors = self.anchors()
        spans = cuts(anchors, self.length, length or self.part_length())
        ends = [*(anchors.index(start) for start, _ in spans), len(anchors)]
        chosen = self.selection
        return [
            Parquet(self.path, chosen.columns, chosen.weight, chosen.codes, self.groups[a:b])
            for a, b in pairwise(ends)
        ] or [self]

    def batches(self, start: int, length: int) -> Iterator[tuple[int, Any]]:
        anchors = self.anchors()
        group = max(0, bisect_right(anchors, start) - 1)
        first = anchors[group] if anchors else 0
        with self._file() as file:
            groups = self.groups[group:]
            wanted = self.selection.wanted
            batches = file.iter_batches(
                length, row_groups=groups, columns=wanted, use_threads=self._alone
            )
            for batch in batches:
                yield first, batch
                first += batch.num_rows
