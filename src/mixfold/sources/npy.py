"""NumPy files, memory-mapped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from mixfold.core.errors import SourceError
from mixfold.sources._table import Codes
from mixfold.sources.array import Array


class Npy(Array):
    """A two-dimensional .npy file, or a span of its rows; they are read when they are used."""

    suffixes: ClassVar[tuple[str, ...]] = (".npy",)

    def __init__(
        self,
        path: Path,
        columns: Sequence[str] | None = None,
        weight: str | None = None,
        codes: Codes | None = None,
        span: tuple[int, int] | None = None,
    ) -> None:
        self.path, self.span = path, span
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
        super().__init__(x if span is None else x[slice(*span)], columns=columns)

    @property
    def travels(self) -> bool:
        return True

    def part(self, start: int, stop: int) -> Npy:
        first = self.span[0] if self.span else 0
        return Npy(self.path, self.columns, span=(first + start, first + stop))

    def __reduce__(self) -> Any:
        return Npy, (self.path.absolute(), self.columns, None, None, self.span)
