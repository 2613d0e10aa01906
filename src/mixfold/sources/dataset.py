"""Datasets of Arrow: folders of files, perhaps filtered, on any file system."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from mixfold.core.fingerprint import FULL_BYTES, Fingerprint, digest
from mixfold.sources._file import Batches, skip_rows
from mixfold.sources.object_source import ObjectSource
from mixfold.sources.table import Codes, Selection

COUNTED = ("parquet", "arrow", "feather", "ipc")


class Dataset(Batches, ObjectSource):
    """A `pyarrow.dataset.Dataset`, read a batch at a time."""

    def __init__(
        self, data: Any, columns: Sequence[str] | None, weight: str | None, codes: Codes | None
    ) -> None:
        self.data, self.place = data, "the dataset"
        self.selection = Selection(data.schema, columns, weight, self.place, codes)
        self.columns = self.selection.columns

    @classmethod
    def reads(cls, data: Any) -> bool:
        library = sys.modules.get("pyarrow.dataset")
        return library is not None and isinstance(data, library.Dataset)

    @classmethod
    def over(
        cls, data: Any, columns: Sequence[str] | None, weight: str | None, codes: Codes | None
    ) -> Dataset:
        return cls(data, columns, weight, codes)

    @cached_property
    def length(self) -> int | None:
        """Number of rows, if the files store it; None for text files."""
        kind = getattr(self.data, "format", None)
        if kind is None or kind.default_extname not in COUNTED:
            return None
        return int(self.data.count_rows())

    def fingerprint(self, limit: int = FULL_BYTES) -> Fingerprint:
        """The fingerprint of the first rows and of the paths, sizes and last changes of files."""
        files = getattr(self.data, "files", [])
        if not files:
            return super().fingerprint(limit)
        facts = [(i.path, i.size, i.mtime_ns) for i in self.data.filesystem.get_file_info(files)]
        words = f"a dataset of {len(files):,} files"
        return [[words, digest(facts)], *super().fingerprint(limit)]

    def batches(self, start: int, length: int) -> Iterator[tuple[int, Any]]:
        found = self.data.to_batches(columns=self.selection.wanted, batch_size=length)
        yield from skip_rows(found, start)
