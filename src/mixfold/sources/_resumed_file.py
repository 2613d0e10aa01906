"""Reading of a remote file that continues where a connection has broken."""

from __future__ import annotations

from collections.abc import Callable
from io import SEEK_CUR, SEEK_END, SEEK_SET, RawIOBase
from typing import Any

from mixfold.core.errors import SourceError
from mixfold.sources._file_systems import forget_listings
from mixfold.sources._retries import Retries, retried


class ResumedFile(RawIOBase):
    """A file that is opened again, at the same byte, when reading fails for a while.

    `system` is an Arrow file system. A file to be read from its beginning may be a stream, which
    needs a server that can send parts of files only after a failure.
    """

    def __init__(self, system: Any, path: str, name: str, stream: bool) -> None:
        super().__init__()
        self._system, self._path, self._name, self._stream = system, path, name, stream
        self._at = 0
        self._version = retried(lambda: version(system, path))
        self._file = retried(self._opened)

    def _opened(self) -> Any:
        if self._stream and self._at == 0:
            return self._system.open_input_stream(self._path, compression=None)
        return self._system.open_input_file(self._path)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return not self._stream

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        start = {SEEK_SET: 0, SEEK_CUR: self._at, SEEK_END: self._version[0]}[whence]
        self._at = start + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes from the present position on."""
        retries = Retries()
        while True:
            try:
                found: bytes = self._read(size)
                break
            except Exception as error:  # libraries for remote files can raise any error
                retries.wait(error)
                self._file = None
        self._at += len(found)
        return found

    def _read(self, size: int) -> bytes:
        if self._file is None:
            check_unchanged(self._version, latest_version(self._system, self._path), self._name)
            self._file = self._opened()
        if not self._stream or self._file.seekable():
            self._file.seek(self._at)
        found: bytes = self._file.read(None if size < 0 else size)
        return found

    def readinto(self, target: Any) -> int:
        view = memoryview(target).cast("B")
        found = self.read(len(view))
        view[: len(found)] = found
        return len(found)

    def close(self) -> None:
        if not self.closed and self._file is not None:
            self._file.close()
        super().close()


def version(system: Any, path: str) -> tuple[int, Any]:
    """The size and the time of the last change of a file."""
    info = system.get_file_info(path)
    if str(info.type) == "FileType.NotFound":
        raise FileNotFoundError(f"there is no file {path}")
    return int(info.size or 0), info.mtime_ns


def latest_version(system: Any, path: str) -> tuple[int, Any]:
    """The version that a file has now, and not when its folder was listed."""
    forget_listings(system)
    return version(system, path)


def check_unchanged(before: tuple[int, Any], now: tuple[int, Any], name: str) -> None:
    """Refuse to continue with a file that is another one than before."""
    if before != now:
        raise SourceError(
            f"{name} has changed while it was read, from {before[0]:,} to {now[0]:,} bytes: do not "
            "change files that are being read, and fit again"
        )


def unchanged(system: Any, path: str, name: str) -> Callable[[], None]:
    """A check that a file is still what it is now."""
    before = retried(lambda: version(system, path))
    return lambda: check_unchanged(before, latest_version(system, path), name)
