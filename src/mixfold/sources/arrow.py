"""Arrow IPC files, also called Feather."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from mixfold.sources._file import TableFile, skip_rows


class Arrow(TableFile):
    """Files of record batches, memory-mapped."""

    suffixes: ClassVar[tuple[str, ...]] = (".arrow", ".feather", ".ipc")

    def open(self) -> Any:
        import pyarrow

        with pyarrow.memory_map(str(self.path)) as raw, pyarrow.ipc.open_file(raw) as file:
            return file.schema

    def batches(self, start: int, length: int) -> Iterator[tuple[int, Any]]:
        import pyarrow

        with pyarrow.memory_map(str(self.path)) as raw, pyarrow.ipc.open_file(raw) as file:
            groups = (file.get_batch(i) for i in range(file.num_record_batches))
            for first, batch in skip_rows(groups, start):
                for offset in range(0, batch.num_rows, length):
                    yield first + offset, batch.slice(offset, length)
