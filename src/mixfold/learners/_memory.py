"""Storage of the responsibilities of all rows, for incremental learners."""

from __future__ import annotations

from typing import TypeAlias
from uuid import uuid4
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import check_array, check_count
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.core.value import replace, value
from mixfold.learners._memory_files import SEGMENT, close, open_files, opened

FIT_LETTERS = 32


def check_memory(memory: Memory, width: int, precision: str) -> None:
    """Raise an error for responsibilities of another width or precision."""
    if (memory.width, memory.precision) != (width, precision):
        raise InvalidInputError(
            f"memory has width {memory.width} and precision {memory.precision!r}: {width} and "
            f"{precision!r} are needed"
        )


@value
class InMemory:
    """Expectations of all rows in segments, of which a change copies only those it touches.

    With `fresh`, written values are read from the next pass on, otherwise at once.
    """

    segments: list[NDArray[np.floating]]
    width: int
    precision: str
    fresh: list[NDArray[np.floating]] | None = None

    on_file = False

    def check(self, width: int, precision: str, rows: int) -> None:
        """Raise an error for another width or precision, or for too few rows."""
        check_memory(self, width, precision)
        for segments in (self.segments, self.fresh or []):
            for i, segment in enumerate(segments):
                n = len(segment) if i == len(segments) - 1 else SEGMENT
                check_array("segments", segment, (min(n, SEGMENT), width))
                if segment.dtype != self.precision:
                    raise InvalidInputError(f"segments are {segment.dtype}, not {self.precision}")
        found = sum(map(len, self.segments))
        if found < rows:
            raise InvalidInputError(f"memory holds {found} rows: {rows} are needed")

    def read(self, first: int, n: int) -> Array:
        """Expectations of rows first .. first + n - 1."""
        parts = [
            self.segments[i][max(0, first - i * SEGMENT) : first + n - i * SEGMENT]
            for i in range(first // SEGMENT, -(-(first + n) // SEGMENT))
        ]
        return np.concatenate([np.empty((0, self.width)), *parts], dtype=np.float64)

    def written(self, first: int, expectations: Array) -> InMemory:
        """The memory with other expectations from row `first` on."""
        segments = list(self.segments if self.fresh is None else self.fresh)
        while len(expectations):
            i, offset = divmod(first, SEGMENT)
            n = min(len(expectations), SEGMENT - offset)
            if i == len(segments):
                segments.append(np.empty((0, self.width), dtype=self.precision))
            old = segments[i]
            segment = np.empty((max(len(old), offset + n), self.width), dtype=self.precision)
            segment[: len(old)] = old
            segment[offset : offset + n] = expectations[:n]
            segments[i] = segment
            first, expectations = first + n, expectations[n:]
        if self.fresh is None:
            return replace(self, segments=segments)
        return replace(self, fresh=segments)

    def swapped(self) -> InMemory:
        """The memory at the end of a pass."""
        return self if self.fresh is None else replace(self, segments=self.fresh, fresh=[])

    def release(self) -> None:
        """Do nothing: there are no files to close."""


@value
class OnFile:
    """Expectations in two files: a pass reads one and writes the other.

    The file that a pass reads is not changed until the pass is over and its checkpoint is written,
    so that a fit that was killed can be resumed. `fit` identifies the fit and `turn` the pass; both
    are in the files too. `known` are the checksums of all segments of the `length` rows that are
    read, `sums` those of the `row` rows that were written, and `last` is the one of an incomplete
    segment.
    """

    width: int
    precision: str
    fit: str
    turn: int
    length: int
    known: NDArray[np.uint32]
    row: int
    sums: NDArray[np.uint32]
    last: int

    on_file = True

    def check(self, width: int, precision: str, rows: int) -> None:
        """Raise an error for another width, precision, number of rows or number of checksums."""
        check_memory(self, width, precision)
        if len(self.fit) != FIT_LETTERS or not self.fit.isalnum() or not self.fit.isascii():
            raise InvalidInputError(f"fit is {self.fit!r}: an identifier of a fit is needed")
        for name in ("turn", "length", "row", "last"):
            check_count(name, getattr(self, name))
        segments = -(-self.length // SEGMENT), self.row // SEGMENT
        if self.length < rows or (self.known.shape, self.sums.shape) != (
            *((n,) for n in segments),
        ):
            raise InvalidInputError(
                f"memory has {len(self.known)} and {len(self.sums)} checksums of {self.length} and "
                f"{self.row} rows: {rows} rows are needed"
            )

    def read(self, first: int, n: int) -> Array:
        """Expectations of rows first .. first + n - 1."""
        files, stop = opened(self.fit), min(first + n, self.length)
        parts = [
            files.segment(self, i)[max(0, first - i * SEGMENT) : stop - i * SEGMENT]
            for i in range(first // SEGMENT, -(-stop // SEGMENT))
        ]
        return np.concatenate([np.empty((0, self.width)), *parts], dtype=np.float64)

    def written(self, first: int, expectations: Array) -> OnFile:
        """The memory with the expectations of the next rows, for the next pass."""
        assert first == self.row, "rows come in their order"
        files, memory = opened(self.fit), self
        if self.row == 0:
            files.begin(self.turn + 1, self.width, self.precision)
        while len(expectations):
            some = np.ascontiguousarray(
                expectations[: SEGMENT - memory.row % SEGMENT], self.precision
            )
            files.write(memory, some)
            memory = memory._grown(len(some), crc32(some.data.cast("B"), memory.last))
            expectations = expectations[len(some) :]
        return memory

    def _grown(self, n: int, last: int) -> OnFile:
        row = self.row + n
        if row % SEGMENT:
            return replace(self, row=row, last=last)
        return replace(self, row=row, sums=np.append(self.sums, np.uint32(last)), last=0)

    def swapped(self) -> OnFile:
        """The memory at the end of a pass: the files are swapped."""
        partial = [np.uint32(self.last)] if self.row % SEGMENT else []
        known = np.append(self.sums, partial).astype(np.uint32)
        none = np.empty(0, np.uint32)
        return replace(
            self, turn=self.turn + 1, length=self.row, known=known, row=0, sums=none, last=0
        )

    def release(self) -> None:
        """Close and unlock the files."""
        close(self.fit)


Memory: TypeAlias = InMemory | OnFile


def on_file(path: str, width: int, precision: str) -> OnFile:
    """A new memory in files that no other fit uses."""
    fit, none = uuid4().hex, np.empty(0, np.uint32)
    open_files(path, fit)
    return OnFile(width, precision, fit, 0, 0, none, 0, none, 0)
