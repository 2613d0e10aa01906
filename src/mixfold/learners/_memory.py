"""What every row was last taken for: the memory of incremental learners."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import check_array
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.core.value import value

SEGMENT = 2**14


def check_memory(memory: InMemory | OnFile, width: int, precision: str) -> None:
    """Refuse latent vectors of another length or precision."""
    if (memory.width, memory.precision) != (width, precision):
        raise InvalidInputError(
            f"memory has width {memory.width} and precision {memory.precision!r}: {width} and "
            f"{precision!r} are needed"
        )


@value
class InMemory:
    """Latent vectors of all rows in segments, of which a change copies only those it touches.

    With `fresh`, what is written there is read from the next pass on, else at once.
    """

    segments: list[NDArray[np.floating]]
    width: int
    precision: str
    fresh: list[NDArray[np.floating]] | None = None

    on_file = False

    def check(self, width: int, precision: str, rows: int, path: str | None) -> None:
        """Refuse another width or precision, and fewer latent vectors than there are rows."""
        check_memory(self, width, precision)
        for segments in (self.segments, self.fresh or []):
            for i, segment in enumerate(segments):
                n = len(segment) if i == len(segments) - 1 else SEGMENT
                check_array("segments", segment, (min(n, SEGMENT), width))
                if segment.dtype != self.precision:
                    raise InvalidInputError(f"segments are {segment.dtype}, not {self.precision}")
        found = sum(map(len, self.segments))
        if found < rows:
            raise InvalidInputError(f"memory holds {found} rows: {rows} are needed")

    def read(self, first: int, n: int) -> Array:
        """Latent vectors of rows first .. first + n - 1."""
        parts = [
            self.segments[i][max(0, first - i * SEGMENT) : first + n - i * SEGMENT]
            for i in range(first // SEGMENT, -(-(first + n) // SEGMENT))
        ]
        return np.concatenate([np.empty((0, self.width)), *parts], dtype=np.float64)

    def written(self, first: int, latent: Array) -> InMemory:
        """With other latent vectors from row `first` on."""
        segments = list(self.segments if self.fresh is None else self.fresh)
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
        if self.fresh is None:
            return replace(self, segments=segments)
        return replace(self, fresh=segments)

    def turned(self) -> InMemory:
        """At the end of a pass."""
        return self if self.fresh is None else replace(self, segments=self.fresh, fresh=[])


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

    places: ClassVar[tuple[str, ...]] = ("path",)
    on_file = True

    def check(self, width: int, precision: str, rows: int, path: str | None) -> None:
        """Refuse another width or precision, and a file that the learner does not name."""
        check_memory(self, width, precision)
        if self.path != path or self.side not in (0, 1):
            raise InvalidInputError(f"memory is {self.path!r}, but the learner has {path!r}")

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
