"""Locations of files: local paths, or addresses such as s3://bucket/key."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from glob import has_magic
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mixfold.core.errors import SourceError
from mixfold.core.fingerprint import Fingerprint, digest, file_fingerprint
from mixfold.sources._file_systems import (
    NO_OPTIONS,
    Options,
    file_system,
    forget_listings,
    unreachable,
)
from mixfold.sources._resumed_file import ResumedFile, unchanged
from mixfold.sources._retries import retried
from mixfold.sources.optional_arrow import arrow

ADDRESS = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]+://")
MANGLED = re.compile(r"^(s3|gs|gcs|az|abfss?|https?|memory):/[^/]")


@dataclass(frozen=True)
class RemoteFile:
    """A file that fsspec or Arrow opens: the address of its file system, and its path there.

    Where a connection breaks, reading continues at the same byte.
    """

    address: str
    path: str
    options: Options = field(default=NO_OPTIONS, repr=False)

    @property
    def _system(self) -> Any:
        return file_system(self.address, self.options)[0]

    def __str__(self) -> str:
        protocol, rest = self.address.split("://", 1)
        if self.path != file_system(self.address, self.options)[1]:
            rest = self.path if protocol == "file" else self.path.lstrip("/")
        return f"{protocol}://{rest.rpartition('@')[2] if '@' in rest.split('/')[0] else rest}"

    @property
    def name(self) -> str:
        """The last part of the path, which is a whole address on web servers."""
        path = urlsplit(self.path).path if is_address(self.path) else self.path
        return path.rstrip("/").rpartition("/")[2]

    def absolute(self) -> RemoteFile:
        """The file itself: addresses are absolute."""
        return self

    def open(self) -> Any:
        """Open the file for random access."""
        return self._python_file(stream=False)

    def stream(self) -> Any:
        """Open the file for sequential reading, decompressed according to its name."""
        pa, file = arrow(), self._python_file(stream=True)
        try:
            return pa.CompressedInputStream(file, pa.Codec.detect(self.path).name)
        except TypeError:  # no compression has this suffix
            return file

    def _python_file(self, stream: bool) -> Any:
        return arrow().PythonFile(ResumedFile(self._system, self.path, str(self), stream), "r")

    def open_parallel(self) -> Any:
        """Open the file for random access by many requests at once, which are not repeated."""
        return retried(lambda: self._system.open_input_file(self.path))

    def info(self) -> Any:
        """Kind, size and time of the last change."""
        return retried(lambda: self._system.get_file_info(self.path))

    def change_check(self) -> Callable[[], None]:
        """A function that raises an error once the file is another one than now."""
        return unchanged(self._system, self.path, str(self))


Location = Path | RemoteFile


def is_address(path: object) -> bool:
    """Whether `path` is an address such as s3://bucket/key, and no file of this machine."""
    return isinstance(path, str) and bool(ADDRESS.match(path)) and not os.path.lexists(path)


def check_not_mangled(path: Path) -> None:
    """Raise an error for an address that has lost a slash because it was made a `Path`."""
    if MANGLED.match(str(path)) and not os.path.lexists(path):
        raise SourceError(
            f"{str(path)!r} looks like an address that was made a Path, which drops a slash: give "
            f"it as text, {str(path).replace(':/', '://', 1)!r}"
        )


def open_binary(location: Location) -> Any:
    """An Arrow file over a location."""
    return location.open() if isinstance(location, RemoteFile) else arrow().OSFile(str(location))


def size_of(location: Location) -> int | None:
    """Bytes in a file, where that is known."""
    if isinstance(location, RemoteFile):
        size = location.info().size
        return None if size is None else int(size)
    return location.stat().st_size


def location_fingerprint(location: Location, limit: int, tail: int) -> Fingerprint:
    """The fingerprint: the contents of a local file; address, size and last change of others."""
    if isinstance(location, Path):
        return file_fingerprint(location, limit, tail)
    info = location.info()
    words = f"{location} of {info.size or 0:,} bytes, modified {info.mtime or 'at an unknown time'}"
    return [[words, digest(str(location), info.size, info.mtime_ns)]]


def expand_address(
    address: str, is_wanted: Callable[[Any], bool], options: Options = NO_OPTIONS
) -> list[RemoteFile]:
    """The files that an address, a folder or a pattern behind one names."""
    system, path = file_system(address, options)
    forget_listings(system)
    from pyarrow.fs import FileType

    try:
        kind = retried(lambda: system.get_file_info(path)).type
        if kind == FileType.File:
            return [RemoteFile(address, path, options)]
        if kind == FileType.Directory:
            found = [file for file in _files(system, path) if is_wanted(RemoteFile(address, file))]
        elif has_magic(path):
            found = [file for file in _files(system, _fixed(path)) if _matches(file, path)]
        else:
            raise SourceError(f"there is no file {address!r}")
    except SourceError:
        raise
    except Exception as error:  # any error of the library for this protocol
        raise unreachable(address, error) from error
    if not found:
        raise SourceError(f"no files match {address!r}")
    return [RemoteFile(address, file, options) for file in sorted(found)]


def _files(system: Any, folder: str) -> Iterator[str]:
    from pyarrow.fs import FileSelector, FileType

    selected = FileSelector(folder, recursive=True, allow_not_found=True)
    entries = retried(lambda: system.get_file_info(selected))
    return (str(entry.path) for entry in entries if entry.type == FileType.File)


def _fixed(pattern: str) -> str:
    """The folder of a pattern: its parts before the first that has wildcards."""
    parts = pattern.split("/")
    first = next(i for i, part in enumerate(parts) if has_magic(part))
    return "/".join(parts[:first])


def _matches(path: str, pattern: str) -> bool:
    return _parts_match(path.strip("/").split("/"), pattern.strip("/").split("/"))


def _parts_match(parts: list[str], patterns: list[str]) -> bool:
    if not patterns:
        return not parts
    if patterns[0] == "**":
        return any(_parts_match(parts[i:], patterns[1:]) for i in range(len(parts)))
    return (
        bool(parts) and fnmatchcase(parts[0], patterns[0]) and _parts_match(parts[1:], patterns[1:])
    )
