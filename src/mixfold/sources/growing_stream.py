"""Lines of standard input or another stream."""

from __future__ import annotations

import os
from collections.abc import Sequence

from mixfold.sources._background_reader import BackgroundReader
from mixfold.sources._growing_lines import GrowingLines
from mixfold.sources._row_formats import CsvLines, JsonLines
from mixfold.sources.csv_files import PLAIN, CsvOptions

CHUNK, CHUNKS = 2**16, 16  # bytes that are read at once, and how many of these wait at most


class GrowingStream(GrowingLines):
    """CSV lines or JSON lines of a stream, told apart by the first one.

    `descriptor` is that of the open stream; 0 is standard input.
    """

    has_positions = False

    def __init__(
        self,
        descriptor: int = 0,
        columns: Sequence[str] | None = None,
        numbers: bool = True,
        options: CsvOptions = PLAIN,
        name: str = "standard input",
    ) -> None:
        super().__init__(name, CsvLines(name, columns, numbers, options, options.delimiter or ","))
        self._reader = BackgroundReader(lambda: os.read(descriptor, CHUNK) or None, CHUNKS)
        self._columns, self._numbers = columns, numbers
        self._first = True

    def more(self) -> bytes:
        data = self._reader.take() or b""
        if data and self._first:
            self._first = False
            if data.lstrip()[:1] == b"{":
                self._use(JsonLines(self.name, self._columns, self._numbers))
        return data

    def _use(self, kind: JsonLines) -> None:
        known = self._format.types
        if known:
            kind.know([*known], [str(each) for each in known.values()])
        self._format = kind

    @property
    def ended(self) -> bool:
        return self._reader.ended

    def close(self) -> None:
        self._reader.close()
