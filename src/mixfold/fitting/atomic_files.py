"""Output files are written completely or not at all; only plain files are replaced."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from mixfold.core.errors import MixfoldError, OutputError

try:
    import fcntl
except ImportError:  # on Windows, where a file that is open cannot be removed anyway
    LOCKS = False
else:
    LOCKS = True

SUFFIX = ".mixfold-tmp"
LABEL_LENGTH = 50  # file systems allow names of 255 bytes, and a character has up to four
MOST_LINKS = 40
STDOUT = Path("/dev/stdout")  # on every system
UNSYNCED = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM)


def check_output(path: Path, *, special: bool = True) -> None:
    """Raise an error if an output cannot be written, before any computation."""
    with _naming(path):
        target = _target(path, special)
        if target is None:
            return
        if not target.parent.is_dir():
            raise OutputError(f"cannot write {path}: there is no folder {target.parent}")
        if target.exists() and not os.access(target, os.W_OK):
            raise OutputError(f"cannot write {path}: it is read-only")
        with tempfile.TemporaryFile(dir=target.parent):
            pass


def is_special(path: Path) -> bool:
    """Whether the output is a device, a FIFO or an open file."""
    with _naming(path):
        return _target(path, True) is None


@contextmanager
def replacing(path: Path, *, special: bool = True) -> Iterator[IO[bytes]]:
    """A temporary file to write to, which replaces `path` if there was no error.

    A symbolic link stays, and what it leads to is replaced. Devices and FIFOs stay too: with
    `special` they receive the bytes at the end, otherwise they are refused.
    """
    with _naming(path):
        target = _target(path, special)
        with _sending(path) if target is None else _replacing(target) as file:
            yield file


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Convert errors of the system to errors that name the output."""
    try:
        yield
    except MixfoldError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error


def _target(path: Path, special: bool) -> Path | None:
    """The plain file to write, after following links; None for devices and FIFOs."""
    if _descriptor(path) is not None:
        mode = stat.S_IFIFO
    else:
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            mode = stat.S_IFREG
    if stat.S_ISREG(mode):
        return Path(os.path.realpath(path)) if path.is_symlink() else path
    if stat.S_ISDIR(mode):
        raise OutputError(f"cannot write {path}: it is a folder")
    if not stat.S_ISCHR(mode) and not stat.S_ISFIFO(mode):
        raise OutputError(f"cannot write {path}: it is neither a file nor a stream")
    if not special:
        raise OutputError(
            f"cannot write {path}: it is a device or a FIFO, and a file that can be read back is "
            "needed"
        )
    return None


def _descriptor(path: Path) -> int | None:
    """The file descriptor that a path such as /dev/stdout stands for, or None."""
    if path == STDOUT:
        return 1
    for _ in range(MOST_LINKS):
        if not path.is_symlink():
            return None
        folder = os.path.realpath(path.parent)
        if folder == f"/proc/{os.getpid()}/fd" and path.name.isdigit():
            return int(path.name)
        path = Path(folder) / path.readlink()
    return None


@contextmanager
def _sending(path: Path) -> Iterator[IO[bytes]]:
    """A temporary file, since tables are not written in order; its bytes are sent at the end."""
    with tempfile.TemporaryFile() as file:
        yield file
        file.seek(0)
        number = _descriptor(path)
        handle = os.open(path, os.O_WRONLY) if number is None else os.dup(number)
        with os.fdopen(handle, "wb") as out:
            shutil.copyfileobj(file, out)


@contextmanager
def _replacing(target: Path) -> Iterator[IO[bytes]]:
    remove_leftovers(target)
    handle, temporary = _create_temporary(target)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if LOCKS:  # until it is renamed, no process may remove it as a left-over
                temporary.replace(target)
        if not LOCKS:
            temporary.replace(target)
        _sync_folder(target.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _create_temporary(target: Path) -> tuple[int, Path]:
    """A new locked file beside the target, with the permissions of the target."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    while True:
        name = f".{_label(target)}.{os.getpid()}-{secrets.token_hex(8)}{SUFFIX}"
        temporary = target.with_name(name)
        handle = os.open(temporary, flags, 0o666)
        if LOCKS:
            with suppress(OSError):  # not every file system has locks
                fcntl.flock(handle, fcntl.LOCK_EX)
            if target.exists():
                with suppress(OSError):
                    os.fchmod(handle, target.stat().st_mode & 0o777)
        if os.fstat(handle).st_nlink:
            return handle, temporary
        os.close(handle)  # another process has removed it before it was locked


def remove_leftovers(target: Path) -> None:
    """Remove temporary files of the same target whose processes have been killed."""
    name = re.compile(rf"\.{re.escape(_label(target))}\.\d+-[0-9a-f]{{16}}{re.escape(SUFFIX)}")
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            if name.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                with suppress(OSError):
                    _remove_unlocked(Path(entry.path))


def _remove_unlocked(path: Path) -> None:
    if not LOCKS:
        path.unlink()
        return
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    finally:
        os.close(handle)


def _label(target: Path) -> str:
    return target.name[:LABEL_LENGTH]


def _sync_folder(folder: Path) -> None:
    """Synchronise the folder to disk, if the system supports it."""
    if not LOCKS:
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno not in UNSYNCED:
            raise
