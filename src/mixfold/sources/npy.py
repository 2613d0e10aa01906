"""NumPy files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NamedTuple, cast

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from mixfold.core.errors import SourceError
from mixfold.core.fingerprint import FULL_BYTES, PIECE, Fingerprint
from mixfold.core.rows import Rows
from mixfold.core.source import Source, block_length, cuts
from mixfold.sources._reading import reading
from mixfold.sources.array_source import as_floats
from mixfold.sources.location import Location, location_fingerprint
from mixfold.sources.table import Codes

KEPT_BYTES = 2**30


class Layout(NamedTuple):
    """The header of a file, and the offset of its numbers."""

    shape: tuple[int, ...]
    by_column: bool
    dtype: np.dtype[Any]
    offset: int


class Npy(Source):
    """A two-dimensional .npy file, or a span of its rows; they are read when they are used.

    The file is read rather than memory-mapped, so that one that is truncated meanwhile raises an
    error and does not crash the process. Rows by number (`take`) are read one by one or, if all
    take at most KEPT_BYTES, kept in memory from the first time on.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".npy",)

    def __init__(
        self,
        path: Location,
        columns: Sequence[str] | None = None,
        weight: str | None = None,
        codes: Codes | None = None,
        span: tuple[int, int] | None = None,
    ) -> None:
        self.path, self.columns = path, columns
        if weight is not None:
            raise SourceError(f"{path}: a .npy file has no column {weight!r} to take weights from")
        with reading(path):
            self.layout = read_layout(path)
        n, d = self.layout.shape
        if columns is not None and len(columns) != d:
            raise SourceError(f"{path} has {d} columns without names: {len(columns)} are needed")
        self.span = span or (0, n)
        self._kept: NDArray[Any] | None = None

    def __reduce__(self) -> Any:
        return Npy, (self.path.absolute(), self.columns, None, None, self.span)

    @property
    def d(self) -> int:
        return self.layout.shape[1]

    @property
    def length(self) -> int:
        return self.span[1] - self.span[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the blocks."""
        return as_floats(np.empty(0, self.layout.dtype)).dtype

    @property
    def random_access(self) -> bool:
        return True

    def fingerprint(self, limit: int = FULL_BYTES) -> Fingerprint:
        with reading(self.path):
            return location_fingerprint(self.path, limit, PIECE)

    @property
    def is_remote_readable(self) -> bool:
        return True

    def blocks(self, start: int = 0, length: int | None = None) -> Iterator[Rows]:
        step = length or block_length(self.d)
        with reading(self.path), open_raw(self.path) as file:
            for first in range(start, self.length, step):
                yield Rows(as_floats(self._read_rows(file, first, min(first + step, self.length))))

    def partitions(self, length: int | None = None) -> Sequence[Npy]:
        step = length or self.part_length()
        spans = cuts(range(0, max(self.length, 1), step), self.length, step)
        first = self.span[0]
        return [Npy(self.path, self.columns, span=(first + a, first + b)) for a, b in spans]

    def whole(self) -> Rows:
        """All rows as one block."""
        with reading(self.path), open_raw(self.path) as file:
            return Rows(as_floats(self._read_rows(file, 0, self.length)))

    def take(self, indices: np.ndarray) -> Rows:
        if self._kept is None and self.length * self.d * self.layout.dtype.itemsize <= KEPT_BYTES:
            self._kept = self.whole().x
        if self._kept is not None:
            return Rows(self._kept[indices])
        with reading(self.path), open_raw(self.path) as file:
            return Rows(as_floats(self._read_each(file, indices)))

    def _read_rows(self, file: BinaryIO, start: int, stop: int) -> NDArray[Any]:
        """Rows start .. stop - 1 of the span."""
        (n, d), by_column, dtype, offset = self.layout
        start, stop = start + self.span[0], stop + self.span[0]
        if not by_column:
            x = np.empty((stop - start, d), dtype)
            self._fill(file, x, offset + start * d * dtype.itemsize)
            return x
        columns = np.empty((d, stop - start), dtype)
        for j, column in enumerate(columns):
            self._fill(file, column, offset + (j * n + start) * dtype.itemsize)
        return columns.T

    def _read_each(self, file: BinaryIO, indices: np.ndarray) -> NDArray[Any]:
        """Rows by number, each read by itself."""
        (n, d), by_column, dtype, offset = self.layout
        rows = np.asarray(indices, np.int64)[:, None] + self.span[0]
        cells = rows + n * np.arange(d) if by_column else rows * d
        size = dtype.itemsize * (1 if by_column else d)
        places = (offset + cells * dtype.itemsize).ravel().tolist()
        found = b"".join([read_at(file, size, place) for place in places])
        if len(found) != len(places) * size:
            raise self._cut_short(file)
        return np.frombuffer(found, dtype).reshape(len(rows), d)

    def _fill(self, file: BinaryIO, target: NDArray[Any], offset: int) -> None:
        """Read as many bytes as the target has, from `offset` on."""
        file.seek(offset)
        left = target.reshape(-1).view(np.uint8).data
        while len(left):
            n = file.readinto(left)  # type: ignore[attr-defined]
            if not n:
                raise self._cut_short(file)
            left = left[n:]

    def _cut_short(self, file: BinaryIO) -> SourceError:
        return SourceError(
            f"{self.path} has become shorter while it was read: it ends at byte "
            f"{file.seek(0, os.SEEK_END):,}, and more rows were there when it was opened; "
            "write it anew, and do not change files that are being read"
        )


def read_at(file: BinaryIO, size: int, offset: int) -> bytes:
    """Up to `size` bytes from `offset` on."""
    if sys.platform != "win32" and isinstance(file, FileIO):
        return os.pread(file.fileno(), size, offset)
    file.seek(offset)
    return file.read(size)


def open_raw(path: Location) -> BinaryIO:
    """Open a file without a buffer."""
    file: Any = path.open("rb", buffering=0) if isinstance(path, Path) else path.open()
    return cast(BinaryIO, file)


def read_layout(path: Location) -> Layout:
    """Read the header of a file, and check the size of the file."""
    with open_raw(path) as file:
        try:
            version = npy_format.read_magic(file)
            if version not in HEADERS:  # such as 3, which is for names of fields
                raise ValueError(f"it has format version {version[0]}")
            shape, by_column, dtype = HEADERS[version](file)
        except (ValueError, TypeError, SyntaxError, RecursionError) as error:
            raise SourceError(
                f"cannot read {path}: it is no .npy file of numbers ({error})"
            ) from error
        offset = file.tell()
        size = file.seek(0, os.SEEK_END)
    if len(shape) != 2 or dtype.kind not in "fiub":
        raise SourceError(
            f"{path} holds a {len(shape)}-dimensional {dtype} array: "
            "a two-dimensional array of numbers is needed"
        )
    if shape[1] <= 0 or shape[0] < 0:
        raise SourceError(f"{path} holds an array of shape {shape}: columns are needed")
    needed = offset + shape[0] * shape[1] * dtype.itemsize
    if size < needed:
        raise SourceError(
            f"cannot read {path}: it is truncated: {shape[0]:,} rows need {needed:,} bytes "
            f"and it has {size:,}"
        )
    return Layout(shape, by_column, dtype, offset)


HEADERS = {
    (1, 0): npy_format.read_array_header_1_0,
    (2, 0): npy_format.read_array_header_2_0,
}
