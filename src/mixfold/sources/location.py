"""Locations of files: local paths, or addresses such as s3://bucket/key."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from glob import has_magic
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mixfold.core.errors import SourceError
from mixfold.core.fingerprint import Fingerprint, digest, file_fingerprint
from mixfold.sources.optional_arrow import arrow

ADDRESS = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]+://")
MANGLED = re.compile(r"^(s3|gs|gcs|az|abfss?|https?|memory):/[^/]")
PACKAGES = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "az": "adlfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "http": "aiohttp and requests",
    "https": "aiohttp and requests",
    "hf": "huggingface_hub",
    "sftp": "paramiko",
}


@dataclass(frozen=True)
class RemoteFile:
    """A file that fsspec or Arrow opens: the address of its file system, and its path there."""

    address: str
    path: str

    def __str__(self) -> str:
        protocol, rest = self.address.split("://", 1)
        if self.path != _file_system(self.address)[1]:
            rest = self.path.lstrip("/")
        return f"{protocol}://{rest.rpartition('@')[2] if '@' in rest.split('/')[0] else rest}"

    @property
    def name(self) -> str:
        """The last part of the path."""
        return urlsplit(self.path).path.rstrip("/").rpartition("/")[2]

    def absolute(self) -> RemoteFile:
        """The file itself: addresses are absolute."""
        return self

    def open(self) -> Any:
        """Open the file for random access."""
        return _file_system(self.address)[0].open_input_file(self.path)

    def stream(self) -> Any:
        """Open the file for sequential reading, decompressed according to its name."""
        return _file_system(self.address)[0].open_input_stream(self.path, compression="detect")

    def info(self) -> Any:
        """Kind, size and time of the last change."""
        return _file_system(self.address)[0].get_file_info(self.path)


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


def expand_address(address: str, is_wanted: Callable[[Any], bool]) -> list[RemoteFile]:
    """The files that an address, a folder or a pattern behind one names."""
    system, path = _file_system(address)
    from pyarrow.fs import FileType

    try:
        kind = system.get_file_info(path).type
        if kind == FileType.File:
            return [RemoteFile(address, path)]
        if kind == FileType.Directory:
            found = [file for file in _files(system, path) if is_wanted(RemoteFile(address, file))]
        elif has_magic(path):
            found = [file for file in _files(system, _fixed(path)) if _matches(file, path)]
        else:
            raise SourceError(f"there is no file {address!r}")
    except SourceError:
        raise
    except Exception as error:  # any error of the library for this protocol
        raise _unreachable(address, error) from error
    if not found:
        raise SourceError(f"no files match {address!r}")
    return [RemoteFile(address, file) for file in sorted(found)]


def _files(system: Any, folder: str) -> Iterator[str]:
    from pyarrow.fs import FileSelector, FileType

    entries = system.get_file_info(FileSelector(folder, recursive=True, allow_not_found=True))
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


@lru_cache(maxsize=64)
def _file_system(address: str) -> tuple[Any, str]:
    """The Arrow file system that serves an address, and the path there."""
    pa = arrow()
    from pyarrow import fs

    protocol = address.partition("://")[0].lower()
    try:
        if protocol == "file":
            system, path = fs.FileSystem.from_uri(address)
            return system, str(path)
        return _through_fsspec(address)
    except ImportError as error:
        if protocol != "s3":
            raise _not_installed(address, protocol, error) from error
    except ValueError as error:  # a protocol that fsspec does not know
        raise SourceError(f"cannot open {address}: {error}") from error
    except Exception as error:
        raise _unreachable(address, error) from error
    try:  # Arrow reads S3 by itself
        system, path = fs.FileSystem.from_uri(address)
    except (pa.ArrowInvalid, NotImplementedError) as error:
        raise _not_installed(address, protocol, error) from error
    except Exception as error:
        raise _unreachable(address, error) from error
    return system, str(path)


def _through_fsspec(address: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    system, path = url_to_fs(address)
    return PyFileSystem(FSSpecHandler(system)), str(path)


def _not_installed(address: str, protocol: str, error: Exception) -> SourceError:
    packages = f"fsspec and {PACKAGES[protocol]}" if protocol in PACKAGES else "fsspec"
    names = packages.replace(" and ", " ")
    return SourceError(
        f"cannot open {address}: {protocol}:// needs {packages} ({error}); pip install {names}, or "
        "copy the file to this machine"
    )


def _unreachable(address: str, error: Exception) -> SourceError:
    lines = str(error).strip().splitlines()
    return SourceError(
        f"cannot open {address}: {lines[0] if lines else type(error).__name__}; check the address, "
        "the network and your credentials, or copy the file to this machine"
    )
