"""Text files that grow."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from mixfold.core.errors import SourceError
from mixfold.core.fingerprint import digest
from mixfold.core.growing_source import FilePosition, GrowingPosition
from mixfold.core.value import replace
from mixfold.sources._growing_lines import GrowingLines
from mixfold.sources._reading import reading
from mixfold.sources._row_formats import CsvLines, JsonLines, RowFormat
from mixfold.sources.csv_files import PLAIN, CsvOptions, delimiter_of

CHUNK = 2**18
HEAD = 1024  # bytes by which a file is known again
JSON = (".jsonl", ".ndjson", ".json")


def format_of(
    name: str, columns: Sequence[str] | None, numbers: bool, options: CsvOptions
) -> RowFormat:
    """The format of the lines of a file, by its name."""
    if name.lower().endswith(JSON):
        return JsonLines(name, columns, numbers)
    return CsvLines(name, columns, numbers, options, delimiter_of(name, options))


class GrowingText(GrowingLines):
    """A CSV file, or one of JSON lines, to which rows are appended.

    If it is replaced by another file, as when logs are rotated, the rest of the old one is read
    first; if it was cut off, it is read from the beginning. Both give a notice.
    """

    def __init__(
        self,
        path: str | Path,
        columns: Sequence[str] | None = None,
        numbers: bool = True,
        options: CsvOptions = PLAIN,
    ) -> None:
        self.path = Path(path)
        super().__init__(str(path), format_of(str(path), columns, numbers, options))
        self._file: BinaryIO | None = None
        self._read = 0  # bytes of the file that are read, of which those in the buffer are not used
        self._head = b""
        self._resumed: FilePosition | None = None
        self._replaced = False  # whether this is another file than the one of the first rows

    def more(self) -> bytes:
        with reading(self.path):
            if self._file is None:
                self._open()
            data = self._next()
            if not data and self._was_replaced():
                self._begin_again()  # its first lines are read by the next call of `poll`
        return data

    def _next(self) -> bytes:
        assert self._file is not None
        data = self._file.read(CHUNK)
        self._read += len(data)
        self._head += data[: HEAD - len(self._head)]
        return data

    def _open(self) -> None:
        self._file = self.path.open("rb", buffering=0)
        resumed, self._resumed = self._resumed, None
        if resumed is None:
            return
        self._head = self._file.read(min(HEAD, max(resumed.offset, resumed.head)))
        size = os.fstat(self._file.fileno()).st_size
        if size < resumed.offset or digest_of(self._head[: resumed.head]) != resumed.digest:
            self._tell(
                f"{self.path} is not the file that was read before: it is read from the beginning"
            )
            self._file.seek(0)
            self._head, self._begun, self._replaced = b"", False, True
            return
        self._read_header()
        self._file.seek(resumed.offset)
        self._read, self._line, self._buffer = resumed.offset, resumed.line, b""

    def _read_header(self) -> None:
        """Find the columns again, which are at the beginning of the file."""
        assert self._file is not None
        self._file.seek(0)
        self._buffer = b""
        while not self._begun and (data := self._file.read(CHUNK)):
            self._buffer += data
            lines = self._buffer.split(b"\n")[:-1]
            self._begun = self._format.begin(lines, whole=True) is not None

    def _was_replaced(self) -> bool:
        """Whether the path leads to another file now, or the file has become shorter."""
        assert self._file is not None
        now = os.fstat(self._file.fileno())
        try:
            other = self.path.stat()
        except FileNotFoundError:
            return False  # it may be about to be replaced
        if (other.st_dev, other.st_ino) != (now.st_dev, now.st_ino):
            self._tell(f"{self.path} was replaced: the new file is read from the beginning")
            return True
        if now.st_size < self._read:
            self._tell(
                f"{self.path} was cut off at {now.st_size:,} bytes, of which {self._read:,} were "
                "read before: it is read again from the beginning"
            )
            return True
        return False

    def _begin_again(self) -> None:
        if self._buffer:
            self._tell(f"{self.path}: line {self._line + 1:,} had no end, and is left out")
        self.close()
        self._file = self.path.open("rb", buffering=0)
        self._read, self._line, self._head, self._resumed = 0, 0, b"", None
        self._begun, self._replaced = False, True

    def _begin(self) -> bool:
        try:
            return super()._begin()
        except SourceError as error:
            if not self._replaced:
                raise
            raise SourceError(f"{self.path} has other columns than before: {error}") from None

    def _tell(self, notice: str) -> None:
        self._notices.append(notice)

    @property
    def position(self) -> GrowingPosition:
        if self._resumed is not None:
            here = self._resumed
        else:
            offset = self._read - len(self._buffer)
            head = self._head[:offset]
            here = FilePosition(str(self.path), offset, self._line, len(head), digest_of(head))
        return replace(super().position, files=[here])

    def seek(self, position: GrowingPosition) -> None:
        super().seek(position)
        if len(position.files) != 1:
            raise SourceError(f"the position is in {len(position.files)} files, not in {self.path}")
        self.close()
        self._read, self._line, self._head, self._begun = 0, 0, b"", False
        self._resumed = position.files[0] if position.files[0].offset else None

    def close(self) -> None:
        """Release the file; polling opens it again where it was."""
        if self._file is not None:
            here = self.position.files[0]
            self._file.close()
            self._file, self._buffer = None, b""
            self._resumed = here if here.offset else None


def digest_of(head: bytes) -> str:
    """The digest of the first bytes of a file."""
    return digest(head.hex())
