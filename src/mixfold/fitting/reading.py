"""Reading and checking of model files and checkpoints."""

from __future__ import annotations

import json
import os
import stat
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from mixfold.core.errors import MixfoldError, ModelFileError
from mixfold.core.registry import find_all
from mixfold.core.value import checksum, unflatten
from mixfold.fitting.files import FORMAT, VERSION

WITH_VALUES = ("families", "schedules", "detectors", "models", "learners", "initializers")
LONGEST_HEADER = 2**26  # bytes
TYPES = {
    name: np.dtype(kind)
    for name, kind in {
        **{"BOOL": "?", "U8": "u1", "I8": "i1", "I16": "<i2", "U16": "<u2", "F16": "<f2"},
        **{"I32": "<i4", "U32": "<u4", "F32": "<f4", "F64": "<f8", "I64": "<i8", "U64": "<u8"},
    }.items()
}


class Place(NamedTuple):
    """The position of an array in the file."""

    kind: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


def read(path: str | Path, kind: str) -> Any:
    """The tree of values in a file of this kind."""
    path = Path(path)
    try:
        with _open(path) as file:
            header, arrays = _parts(file, kind)
        for package in WITH_VALUES:
            find_all(package)  # a class is registered when its file is imported
        return unflatten(header["schema"], arrays)
    except OSError as error:
        raise ModelFileError(f"cannot read {path}: {error.strerror or error}") from error
    except ModelFileError as error:
        raise ModelFileError(f"{path} {error}") from None
    except MixfoldError as error:
        raise ModelFileError(f"{path} is damaged: {error}") from None
    except Exception as error:  # invalid bytes can raise any error in the parsers
        raise ModelFileError(f"{path} is damaged or not a mixfold file ({error})") from error


def _open(path: Path) -> BinaryIO:
    """A plain file, opened; anything else, such as a pipe, is refused without waiting for it."""
    _check_plain(path.stat())  # opening a device may have side effects
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        _check_plain(os.fstat(handle))
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def _check_plain(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise ModelFileError("is not a plain file, but a directory, a pipe or a device")


def _parts(file: BinaryIO, kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header, and the arrays that it describes."""
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(size - 8, LONGEST_HEADER):
        raise ModelFileError("is damaged or not a mixfold file: its header is longer than it is")
    text = file.read(length)
    places = _parse(text)
    header = _parse(places.pop("__metadata__")[FORMAT])
    _check_header(header, kind)
    found = _places(places, size - 8 - length)
    arrays = {name: _array(file, place) for name, place in found.items()}
    if header["sha256"] != checksum(header["schema"], arrays):
        raise ModelFileError("is damaged: its checksum is wrong")
    return header, arrays


def _places(entries: dict[str, Any], size: int) -> dict[str, Place]:
    """Arrays in the order of the file, which they fill without gaps."""
    found = {}
    for name, entry in entries.items():
        kind, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        if kind not in TYPES or not all(type(n) is int and n >= 0 for n in (*shape, begin, end)):
            raise ModelFileError(
                f"is damaged: it has an array {name!r} of type {kind!r} and shape {shape!r}"
            )
        found[name] = Place(TYPES[kind], tuple(shape), begin, end)
    found = dict(sorted(found.items(), key=lambda item: item[1][2:]))
    last = 0
    for name, place in found.items():
        if place.begin != last or place.end - last != prod(place.shape) * place.kind.itemsize:
            raise ModelFileError(f"is damaged: the array {name!r} has another size than its shape")
        last = place.end
    if last != size:
        raise ModelFileError(f"is damaged: of {size} bytes its header accounts for {last}")
    return found


def _array(file: BinaryIO, place: Place) -> np.ndarray:
    flat = np.fromfile(file, dtype=np.uint8, count=place.end - place.begin).view(place.kind)
    if place.kind == np.bool_:  # bytes other than 0 and 1 are not valid booleans
        flat = flat.view(np.uint8) != 0
    return flat.reshape(place.shape)


def _parse(text: bytes | str) -> Any:
    return json.loads(text, object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ModelFileError("is damaged: its header says something twice")
    return found


def _check_header(header: dict[str, Any], kind: str) -> None:
    if header["version"] != VERSION:
        raise ModelFileError(
            f"has format version {header['version']!r}; this mixfold reads version {VERSION}: "
            "use the mixfold that wrote it"
        )
    if header["kind"] != kind:
        other = header["kind"] if header["kind"] in ("model", "checkpoint") else "foreign"
        raise ModelFileError(f"is a {other} file: a {kind} file is needed")
