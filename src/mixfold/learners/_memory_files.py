"""The files of a memory: locked while a fit uses them, and checked whenever they are read."""

from __future__ import annotations

import os
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from mixfold.core.errors import InvalidInputError, ModelFileError

if TYPE_CHECKING:
    from mixfold.learners._memory import OnFile

SEGMENT = 2**14
MAGIC, VERSION = b"mixfold memory\0\0", 1
HEADER = struct.Struct("<16sI32sIII")
HEADER_BYTES = 64
LOCKED_BYTE = 2**40


class Header(NamedTuple):
    """The header of a file: its fit and pass, and the format of the rows."""

    fit: str
    turn: int
    width: int
    precision: str


class Files:
    """PATH.0 and PATH.1, both locked; rows written in pass number `turn` are in `turn % 2`."""

    def __init__(self, path: str, fit: str) -> None:
        self.fit = fit
        self.paths = [Path(f"{path}.{side}") for side in (0, 1)]
        self._handles: list[int] = []
        self._segment: tuple[int, int, NDArray[np.floating]] | None = None
        try:
            for file in self.paths:
                with naming(file):
                    self._handles.append(os.open(file, os.O_RDWR | os.O_CREAT | BINARY, 0o666))
                lock(self._handles[-1], file)
            for side in (0, 1):
                self._header(side)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close and unlock the files."""
        for handle in self._handles:
            os.close(handle)
        self._handles = []

    def begin(self, turn: int, width: int, precision: str) -> None:
        """Truncate the file of pass number `turn`, and write its header."""
        side = turn % 2
        itemsize = np.dtype(precision).itemsize
        header = HEADER.pack(MAGIC, VERSION, self.fit.encode(), turn, width, itemsize)
        with naming(self.paths[side]):
            os.ftruncate(self._handles[side], 0)
            write_at(self._handles[side], header.ljust(HEADER_BYTES, b"\0"), 0)

    def write(self, memory: OnFile, expectations: NDArray[np.floating]) -> None:
        """Write rows from number `memory.row` on."""
        side = (memory.turn + 1) % 2
        self._check_header(side, memory, memory.turn + 1)
        place = HEADER_BYTES + memory.row * row_bytes(memory)
        with naming(self.paths[side]):
            write_at(self._handles[side], expectations.tobytes(), place)

    def segment(self, memory: OnFile, number: int) -> NDArray[np.floating]:
        """Read one segment of the previous pass, and check that it is unchanged."""
        if self._segment is not None and self._segment[:2] == (memory.turn, number):
            return self._segment[2]
        side = memory.turn % 2
        self._check_header(side, memory, memory.turn)
        rows = min(SEGMENT, memory.length - number * SEGMENT)
        place = HEADER_BYTES + number * SEGMENT * row_bytes(memory)
        with naming(self.paths[side]):
            data = read_at(self._handles[side], rows * row_bytes(memory), place)
        if len(data) != rows * row_bytes(memory) or crc32(data) != int(memory.known[number]):
            first = number * SEGMENT
            raise ModelFileError(
                f"{self.paths[side]} is damaged: rows {first} to {first + rows - 1} are not as "
                "they were written; start the fit again without resume"
            )
        found = np.frombuffer(data, dtype=memory.precision).reshape(rows, memory.width)
        self._segment = memory.turn, number, found
        return found

    def _check_header(self, side: int, memory: OnFile, turn: int) -> None:
        wanted = Header(memory.fit, turn, memory.width, memory.precision)
        found = self._header(side)
        if found != wanted:
            whose = "no fit" if found is None else "another fit"
            if found is not None and found.fit == memory.fit:
                whose = f"pass {found.turn}, not of pass {turn}, of the fit"
            raise ModelFileError(
                f"{self.paths[side]} holds the memory of {whose}: the checkpoint is older than "
                "the file, or the file was replaced; start the fit again without resume"
            )

    def _header(self, side: int) -> Header | None:
        """The header of the file; None if it is empty."""
        with naming(self.paths[side]):
            data = read_at(self._handles[side], HEADER_BYTES, 0)
        if not data:
            return None
        magic, version, fit, turn, width, itemsize = HEADER.unpack(
            data[: HEADER.size].ljust(HEADER.size, b"\0")
        )
        if magic != MAGIC or len(data) != HEADER_BYTES:
            raise InvalidInputError(
                f"{self.paths[side]} is not a memory file of mixfold, and is left as it is: choose "
                "another path for memory, or remove the file"
            )
        if version != VERSION:
            raise InvalidInputError(
                f"{self.paths[side]} is a memory file of format {version}; this mixfold uses "
                f"format {VERSION}: remove the file to start again"
            )
        return Header(fit.decode("ascii", "replace"), turn, width, f"float{8 * itemsize}")


_FILES: dict[str, Files] = {}


def open_files(path: str, fit: str) -> None:
    """Lock the files at `path` for a fit, unless it has them already."""
    if fit not in _FILES:
        _FILES[fit] = Files(path, fit)


def opened(fit: str) -> Files:
    """The files of a fit."""
    return _FILES[fit]


def close(fit: str) -> None:
    """Close and unlock the files of a fit."""
    files = _FILES.pop(fit, None)
    if files is not None:
        files.close()


def row_bytes(memory: OnFile) -> int:
    """Bytes of the expectations of a row."""
    return memory.width * int(np.dtype(memory.precision).itemsize)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Convert errors of the system to errors with the path and a remedy."""
    try:
        yield
    except OSError as error:
        raise InvalidInputError(
            f"cannot use {path} as memory: {error.strerror or error}; choose another path for "
            "memory, or free space there"
        ) from error


BINARY: int = getattr(os, "O_BINARY", 0)


def lock(handle: int, path: Path) -> None:
    """Lock a plain file, or refuse it; the lock ends with the process at the latest."""
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise InvalidInputError(f"{path} is no plain file: choose another path for memory")
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(handle, LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise InvalidInputError(
            f"{path} cannot be locked ({error.strerror or error}): another fit uses it, or its "
            "disk does not support locks; give every fit its own path, on a disk of this machine"
        ) from error


def write_at(handle: int, data: bytes, place: int) -> None:
    """Write all bytes from `place` on."""
    os.lseek(handle, place, os.SEEK_SET)
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]


def read_at(handle: int, size: int, place: int) -> bytes:
    """Up to `size` bytes from `place` on."""
    os.lseek(handle, place, os.SEEK_SET)
    parts = []
    while size > 0 and (data := os.read(handle, size)):
        parts.append(data)
        size -= len(data)
    return b"".join(parts)
