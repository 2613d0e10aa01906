"""Model files and checkpoints: safetensors with a version and a schema, never pickle.

They are read by `run/reading.py`.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from mixfold.core.errors import ModelFileError
from mixfold.core.value import checksum, flatten

FORMAT, VERSION = "mixfold", 6


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
