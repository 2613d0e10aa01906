"""NumPy files, memory-mapped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from mixfold.core.errors import SourceError
from mixfold.sources._table import Codes
from mixfold.sources.array import Array


class Npy(Array):
    """A two-dimensional .npy file; rows are read from disk when they are used."""

    suffixes: ClassVar[tuple[str, ...]] = (".npy",)

    def __init__(
        self,
        path: Path,
        columns: Sequence[str] | None = None,
        weight: str | None = None,
        codes: Codes | None = None,
    ) -> None:
        if weight is not None:
            raise SourceError(f"{path}: a .npy file has no column {weight!r} to take weights from")
        try:
            x = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, OSError, EOFError) as error:
            raise SourceError(f"cannot read {path}: {error}") from error
        if x.ndim != 2 or x.dtype.kind not in "fiub":
            raise SourceError(
                f"{path} holds a {x.ndim}-dimensional {x.dtype} array: "
                "a two-dimensional array of numbers is needed"
            )
        if columns is not None and len(columns) != x.shape[1]:
            raise SourceError(
                f"{path} has {x.shape[1]} columns without names: {len(columns)} are needed"
            )
        super().__init__(x, columns=columns)
