"""Streams of Arrow record batches in files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from mixfold.sources._file import TableFile, skip_rows
from mixfold.sources.location import open_binary


class ArrowStream(TableFile):
    """Record batches in the format for pipes, of which one at a time is in memory.

    Unlike files of record batches, they do not store how many rows they have.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".arrows",)

    @classmethod
    def example(cls, x: np.ndarray, folder: Path) -> Path:
        """Write rows to a file, for the tests."""
        import pyarrow

        path = folder / "x.arrows"
        table = pyarrow.table({f"c{j}": column for j, column in enumerate(x.T)})
        with pyarrow.ipc.new_stream(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=64)
        return path

    def open(self) -> Any:
        import pyarrow

        with open_binary(self.path) as raw, pyarrow.ipc.open_stream(raw) as stream:
            return stream.schema

    def batches(self, start: int, length: int) -> Iterator[tuple[int, Any]]:
        import pyarrow

        wanted = set(self.selection.wanted)
        places = [i for i, name in enumerate(self.open().names) if name in wanted]
        options = pyarrow.ipc.IpcReadOptions(included_fields=places)
        with (
            open_binary(self.path) as raw,
            pyarrow.ipc.open_stream(raw, options=options) as stream,
        ):
            for first, batch in skip_rows(stream, start):
                for offset in range(0, batch.num_rows, length):
                    yield first + offset, batch.slice(offset, length)
