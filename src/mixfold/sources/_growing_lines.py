"""Lines that arrive, divided from the bytes in which they come."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from mixfold.core.errors import SourceError
from mixfold.core.growing_source import Arrived, GrowingPosition, GrowingSource
from mixfold.sources._row_formats import RowFormat

LONGEST = 2**24  # bytes of a line
FIRST = 200  # rows from which the types of columns, and families, are found


class GrowingLines(GrowingSource):
    """Rows that are lines; half a line waits for its other half."""

    def __init__(self, name: str, kind: RowFormat) -> None:
        self.name, self._format = name, kind
        self._buffer = b""
        self._begun = self._reads_rest = False
        self._line = self._rows = 0
        self._notices: list[str] = []

    @abstractmethod
    def more(self) -> bytes:
        """The next bytes that have arrived, without waiting; none if there are no more yet."""

    def poll(self, most: int) -> Arrived | None:
        if not self._begun and not self._begin():
            return self._told()
        lines = self._take(max(most, 1 if self._is_known else FIRST))
        if not lines:
            return self._told()
        first = self._line - len(lines)
        full = [(first + i + 1, line) for i, line in enumerate(lines) if line.strip()]
        numbers = [number for number, _ in full]
        rows, bad = self._format.read(
            [line for _, line in full], lambda i: f"{self.name}: line {numbers[i]:,}"
        )
        self._rows += 0 if rows is None else len(rows)
        notices, self._notices = self._notices, []
        return Arrived(rows, bad, notices)

    def _told(self) -> Arrived | None:
        """Notices without rows, if there are any."""
        notices, self._notices = self._notices, []
        return Arrived(None, (), notices) if notices else None

    def _begin(self) -> bool:
        """Read what comes before the first row; false if it has not arrived yet."""
        while True:
            lines = _complete(self._buffer)
            before = self._format.begin(lines, self.ended)
            if before is not None:
                self._drop(lines[:before])
                self._begun = True
                return True
            if not self._fill():
                return False
            if self._begun:  # a file that was read before
                return True

    def _take(self, most: int) -> list[bytes]:
        """Up to so many of the complete lines."""
        while self._buffer.count(b"\n") < most and self._fill():
            pass
        if not (self._is_known or self._is_last or self._buffer.count(b"\n") >= FIRST):
            return []
        lines = _complete(self._buffer, most)
        if not lines and self._buffer and self.ended:  # the last line has no end
            lines, self._buffer = [self._buffer], b""
            self._line += 1
            return lines
        self._drop(lines)
        return lines

    @property
    def _is_known(self) -> bool:
        """Whether the types of columns are known, so that a single row can be read."""
        return bool(self._format.types) or self._format.numbers

    @property
    def _is_last(self) -> bool:
        """Whether the first rows wait for no others that tell the types of columns too."""
        return self.ended or self._reads_rest

    def read_rest(self) -> bool:
        changed = not self._reads_rest
        self._reads_rest = True
        return changed

    def _fill(self) -> bool:
        more = self.more()
        self._buffer += more
        if len(self._buffer) > LONGEST and b"\n" not in self._buffer:
            raise SourceError(
                f"{self.name}: line {self._line + 1:,} is longer than {LONGEST:,} bytes: is it a "
                "table of lines?"
            )
        return bool(more)

    def _drop(self, lines: Sequence[bytes]) -> None:
        self._buffer = self._buffer[sum(map(len, lines)) + len(lines) :]
        self._line += len(lines)

    def waiting(self) -> str | None:
        if not self._buffer:
            return None
        lines = self._buffer.count(b"\n")
        if lines and self._begun:
            return f"{lines:,} of the {FIRST:,} rows have come that tell the types of the columns"
        if lines:
            return f"the first row of {self.name} has not come yet"
        return f"line {self._line + 1:,} of {self.name} has begun, but has no end yet"

    @property
    def position(self) -> GrowingPosition:
        types = self._format.types
        return GrowingPosition([*types], [str(kind) for kind in types.values()], self._rows, [])

    def seek(self, position: GrowingPosition) -> None:
        self._rows = position.rows
        if position.columns:
            self._format.know(position.columns, position.types)


def _complete(data: bytes, most: int = -1) -> list[bytes]:
    """The first complete lines, at most so many, without their ends."""
    return (
        data.split(b"\n", most)[:most] if data.count(b"\n") >= most > 0 else data.split(b"\n")[:-1]
    )
