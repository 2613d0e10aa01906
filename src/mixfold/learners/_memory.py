"""What every row was last taken for: the memory of incremental learners."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mixfold.core.rows import Array
from mixfold.core.value import value

SEGMENT = 2**14


@value
class InMemory:
    """Latent vectors of all rows in segments, of which a change copies only those it touches."""

    segments: list[Any]
    width: int
    precision: str

    on_file = False

    def read(self, first: int, n: int) -> Array:
        """Latent vectors of rows first .. first + n - 1."""
        parts = [
            self.segments[i][max(0, first - i * SEGMENT) : first + n - i * SEGMENT]
            for i in range(first // SEGMENT, -(-(first + n) // SEGMENT))
        ]
        return np.concatenate([np.empty((0, self.width)), *parts], dtype=np.float64)

    def written(self, first: int, latent: Array) -> InMemory:
        """With other latent vectors from row `first` on."""
        segments = list(self.segments)
        while len(latent):
            i, offset = divmod(first, SEGMENT)
            n = min(len(latent), SEGMENT - offset)
            if i == len(segments):
                segments.append(np.empty((0, self.width), dtype=self.precision))
            old = segments[i]
            segment = np.empty((max(len(old), offset + n), self.width), dtype=self.precision)
            segment[: len(old)] = old
            segment[offset : offset + n] = latent[:n]
            segments[i] = segment
            first, latent = first + n, latent[n:]
        return replace(self, segments=segments)

    def turned(self) -> InMemory:
        """At the end of a pass."""
        return self


@value
class OnFile:
    """Latent vectors in two files: a pass reads the one and writes the other.

    What a pass has read stays as it was until the pass is over and its end is on disk, so that a
    fit which is killed can go on from its checkpoint.
    """

    path: str
    width: int
    precision: str
    side: int = 0

    on_file = True

    def read(self, first: int, n: int) -> Array:
        """Latent vectors of rows first .. first + n - 1."""
        with self._path(self.side).open("rb") as file:
            file.seek(first * self._row_bytes)
            found = np.frombuffer(file.read(n * self._row_bytes), dtype=self.precision)
        return found.reshape(-1, self.width).astype(np.float64)

    def written(self, first: int, latent: Array) -> OnFile:
        """With other latent vectors from row `first` on, for the next pass to read."""
        path = self._path(1 - self.side)
        with path.open("r+b" if path.exists() else "w+b") as file:
            file.seek(first * self._row_bytes)
            file.write(np.ascontiguousarray(latent, dtype=self.precision).tobytes())
        return self

    def turned(self) -> OnFile:
        """At the end of a pass: what was written is what is read."""
        return replace(self, side=1 - self.side)

    @property
    def _row_bytes(self) -> int:
        return self.width * int(np.dtype(self.precision).itemsize)

    def _path(self, side: int) -> Path:
        return Path(f"{self.path}.{side}")
