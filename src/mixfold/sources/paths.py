"""Expansion of paths, folders and patterns to files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from fnmatch import filter as matching
from glob import has_magic
from pathlib import Path
from typing import Any

from mixfold.core.errors import SourceError
from mixfold.core.registry import find_all
from mixfold.sources._file_systems import Options
from mixfold.sources.location import (
    Location,
    RemoteFile,
    check_not_mangled,
    expand_address,
    is_address,
)
from mixfold.sources.remote_files import RemoteFiles

Paths = str | Location | RemoteFiles | Sequence[str | Location]


def expand(paths: Paths, suffixes: tuple[str, ...] | None = None) -> list[Location]:
    """All files that paths, folders, patterns and addresses such as s3://bucket/key name.

    A path that exists is never a pattern, nor is a part of one. Folders include their subfolders,
    but not links to folders; so does `**`. In folders only files with a known suffix are used or,
    if `suffixes` are given, with one of these.
    """

    def is_wanted(path: Location) -> bool:
        kind = kind_of_file(path)
        return kind is not None and (suffixes is None or path.name.lower().endswith(suffixes))

    if isinstance(paths, RemoteFiles):
        options = Options(paths.storage_options)
        return [f for one in paths.addresses for f in expand_address(one, is_wanted, options)]
    given = [paths] if isinstance(paths, str | Path | RemoteFile) else list(paths)
    return [file for path in given for file in _expand(path, is_wanted)]


def kind_of_file(path: Location) -> Any:
    """The source that reads such a file, by its name; None for hidden and unknown files."""
    if path.name.startswith((".", "_")):
        return None
    kinds = (s for s in find_all("sources").values() if hasattr(s, "suffixes"))
    return next((k for k in kinds if path.name.lower().endswith(k.suffixes)), None)


def _expand(path: str | Location, is_wanted: Callable[[Location], bool]) -> list[Location]:
    if path == "":
        raise SourceError("the path is empty: name a file, a folder or a pattern")
    if isinstance(path, RemoteFile):
        return [path]
    if isinstance(path, str) and is_address(path):
        return [*expand_address(path, is_wanted)]
    check_not_mangled(Path(path))
    return [*_expand_path(path, is_wanted)]


def _expand_path(path: str | Path, is_wanted: Callable[[Location], bool]) -> list[Path]:
    if Path(path).is_dir():
        found = files_in(Path(path), is_wanted)
    elif has_magic(str(path)) and not os.path.lexists(path):
        found = sorted({p for p in _matches(Path(), Path(path).parts) if p.is_file()})
    else:
        found = [Path(path)]
    if not found:
        raise SourceError(f"no files match {str(path)!r}")
    for file in found:
        if not file.is_file():
            raise SourceError(f"there is no file {str(file)!r}")
    return found


def files_in(folder: Path, is_wanted: Callable[[Location], bool]) -> list[Path]:
    """The wanted files of a folder and its subfolders, in the order of their names."""
    files = (file for inner in _folders(folder) for file in _entries(inner))
    return sorted(file for file in files if is_wanted(file) and not file.is_dir())


def _matches(folder: Path, parts: Sequence[str]) -> Iterator[Path]:
    """The files that match the parts of a pattern inside a folder."""
    if not parts:
        yield folder
        return
    part, rest = parts[0], parts[1:]
    if os.path.lexists(folder / part):
        yield from _matches(folder / part, rest)
    elif part == "**":
        for inner in _folders(folder, hidden=False):
            yield from _matches(inner, rest or ("*",))
    elif has_magic(part):
        names = [p.name for p in _entries(folder)]
        shown = [n for n in names if part.startswith(".") or not n.startswith(".")]
        for name in matching(shown, part):
            yield from _matches(folder / name, rest)


def _folders(folder: Path, hidden: bool = True) -> Iterator[Path]:
    """A folder and all its subfolders, without links, which may form a cycle."""
    waiting = [folder]
    while waiting:
        inner = waiting.pop()
        yield inner
        waiting += [
            entry
            for entry in _entries(inner)
            if entry.is_dir()
            and not entry.is_symlink()
            and (hidden or not entry.name.startswith("."))
        ]


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise SourceError(f"cannot read the folder {folder}: {error.strerror or error}") from error
