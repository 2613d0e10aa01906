"""Arrow IPC files, also called Feather."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from mixfold.sources._file import TableFile, skip_rows
from mixfold.sources.location import open_binary


class Arrow(TableFile):
    """Files of record batches, of which one at a time is in memory.

    They are read rather than memory-mapped, so that a file that is truncated meanwhile raises an
    error and does not crash the process.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".arrow", ".feather", ".ipc")

    def open(self) -> Any:
        import pyarrow

        with open_binary(self.path) as raw, pyarrow.ipc.open_file(raw) as file:
            return file.schema

    def batches(self, start: int, length: int) -> Iterator[tuple[int, Any]]:
        import pyarrow

        with open_binary(self.path) as raw:
            with pyarrow.ipc.open_file(raw) as file:
                wanted = set(self.selection.wanted)
                places = [i for i, name in enumerate(file.schema.names) if name in wanted]
            options = pyarrow.ipc.IpcReadOptions(included_fields=places)
            with pyarrow.ipc.open_file(raw, options=options) as file:
                groups = (file.get_batch(i) for i in range(file.num_record_batches))
                for first, batch in skip_rows(groups, start):
                    for offset in range(0, batch.num_rows, length):
                        yield first + offset, batch.slice(offset, length)
