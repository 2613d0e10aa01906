"""Model files and checkpoints: safetensors with a version and a schema, never pickle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from mixfold.core.errors import MixfoldError, ModelFileError
from mixfold.core.registry import find_all
from mixfold.core.value import checksum, flatten, unflatten
from mixfold.run.atomic_files import replacing

FORMAT, VERSION = "mixfold", 5
WITH_VALUES = ("families", "schedules", "detectors", "models", "learners", "starts")


def write(path: str | Path, kind: str, content: Any) -> None:
    """Save a tree of values; the file appears whole or not at all."""
    from safetensors.numpy import save

    tree, arrays = _flattened(path, content)
    header = {"version": VERSION, "kind": kind, "sha256": checksum(tree, arrays), "schema": tree}
    # one entry: safetensors writes several in random order
    data = save(arrays, metadata={FORMAT: json.dumps(header)})
    with replacing(Path(path), special=kind == "model") as file:
        file.write(data)


def check_savable(path: str | Path, content: Any) -> None:
    """Refuse what a file cannot hold."""
    _flattened(path, content)


def _flattened(path: str | Path, content: Any) -> tuple[Any, dict[str, np.ndarray]]:
    arrays: dict[str, np.ndarray] = {}
    try:
        return flatten(content, "content", arrays), arrays
    except TypeError as error:
        raise ModelFileError(f"cannot write {path}: {error}") from None


def kind_of(path: Path) -> str | None:
    """The kind of mixfold file that the beginning of a file speaks of; None for any other file."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > path.stat().st_size:
                return None
            header = json.loads(file.read(length))
        kind = json.loads(header["__metadata__"][FORMAT])["kind"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return kind if isinstance(kind, str) else None


def may_replace(path: Path, kind: str) -> bool:
    """Whether there is nothing at a path, or nothing but a file of this kind."""
    return not path.is_file() or path.stat().st_size == 0 or kind_of(path) == kind


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
