"""Model files and checkpoints: safetensors with a version and a schema, never pickle.

They are read by `fitting/reading.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from mixfold.core.errors import ModelFileError
from mixfold.core.value import checksum, flatten
from mixfold.fitting.atomic_files import replacing

FORMAT, VERSION = "mixfold", 11


def write(path: str | Path, kind: str, content: Any) -> None:
    """Save a tree of values; the file is written completely or not at all."""
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
    """The kind of mixfold file, from its header; None for other files."""
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
    """Whether the path does not exist, or is a file of this kind."""
    return not path.is_file() or path.stat().st_size == 0 or kind_of(path) == kind
