"""Model files and checkpoints: safetensors with a version and a schema, never pickle."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from mixfold.core.errors import MixfoldError, ModelFileError
from mixfold.core.registry import find_all
from mixfold.core.value import checksum, flatten, unflatten

FORMAT, VERSION = "mixfold", 5
WITH_VALUES = ("families", "schedules", "detectors", "models", "learners", "starts")


def write(path: str | Path, kind: str, content: Any) -> None:
    """Save a tree of values; the file appears whole or not at all."""
    from safetensors.numpy import save

    arrays: dict[str, np.ndarray] = {}
    try:
        tree = flatten(content, "content", arrays)
    except TypeError as error:
        raise ModelFileError(f"cannot write {path}: {error}") from None
    header = {"version": VERSION, "kind": kind, "sha256": checksum(tree, arrays), "schema": tree}
    # one entry: safetensors writes several in random order
    write_atomically(Path(path), save(arrays, metadata={FORMAT: json.dumps(header)}))


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file in one step, so that a crash leaves the old one or the new one."""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise ModelFileError(f"cannot write {path}: {error.strerror or error}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise ModelFileError(f"cannot write {path}: {error.strerror or error}") from error
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def read(path: str | Path, kind: str) -> Any:
    """The tree of values in a file of this kind."""
    from safetensors.numpy import load

    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ModelFileError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        arrays = load(data)
        metadata = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
        header = json.loads(metadata[FORMAT])
        _check_header(header, kind)
        if header["sha256"] != checksum(header["schema"], arrays):
            raise ModelFileError("is damaged: its checksum is wrong")
        for package in WITH_VALUES:
            find_all(package)  # a class is known only once its file is imported
        return unflatten(header["schema"], arrays)
    except MixfoldError as error:
        raise ModelFileError(f"{path} {error}") from None
    except Exception as error:  # whatever a file of other bytes makes the parsers raise
        raise ModelFileError(f"{path} is damaged or not a mixfold file ({error})") from error


def _check_header(header: dict[str, Any], kind: str) -> None:
    if header["version"] != VERSION:
        raise ModelFileError(
            f"has format version {header['version']}; this mixfold reads version {VERSION}: "
            "use the mixfold that wrote it"
        )
    if header["kind"] != kind:
        raise ModelFileError(f"is a {header['kind']} file: a {kind} file is needed")
