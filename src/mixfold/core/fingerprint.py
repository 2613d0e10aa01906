"""Fingerprints of data: a short description and a digest.

A digest changes if one value changes; it is no protection against deliberate forgery.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO

import numpy as np

from mixfold.core.rows import Rows

FULL_BYTES = 2**30
CHUNK = 2**22
PIECES, PIECE = 16, 2**14

Fingerprint = list[list[str]]
"""Words and a digest for every part of the data; equal data have equal digests."""


def rows_fingerprint(words: str, blocks: Iterable[Rows]) -> Fingerprint:
    """The fingerprint of all rows and weights; it does not depend on the blocks."""
    kinds: list[str] = []
    checks: list[Checksum] = []
    n = 0
    for rows in blocks:
        block = rows.on_host()
        parts = [block.x] if block.weight is None else [block.x, block.weight]
        if not checks:
            kinds = [str(part.dtype) for part in parts]
            checks = [Checksum() for _ in parts]
        for check, part in zip(checks, parts, strict=True):
            check.add(part)
        n += len(block)
    names = ["", "sample_weight of "]
    return [
        [f"{names[i]}{words}", digest(kind, n, check.value())]
        for i, (kind, check) in enumerate(zip(kinds, checks, strict=True))
    ]


class Checksum:
    """CRC-32 of chunks of bytes that come one after the other, and SHA-256 over all of them."""

    def __init__(self) -> None:
        self._sums: list[int] = []
        self._last, self._left = 0, CHUNK

    def add(self, array: np.ndarray) -> None:
        """Add the numbers of an array, row by row."""
        for some in _in_pieces(array):
            self.add_bytes(np.ascontiguousarray(some).reshape(-1).view(np.uint8).data)

    def add_bytes(self, data: memoryview) -> None:
        """Add bytes."""
        while len(data):
            self._last = zlib.crc32(data[: self._left], self._last)
            taken = min(self._left, len(data))
            data, self._left = data[taken:], self._left - taken
            if not self._left:
                self._sums.append(self._last)
                self._last, self._left = 0, CHUNK

    def value(self) -> str:
        """The digest so far."""
        return digest(self._sums, self._last, self._left)


def _in_pieces(array: np.ndarray) -> Iterator[np.ndarray]:
    """Rows of a large array a few at a time, so that a copy of them is small."""
    step = max(1, CHUNK // max(1, array[:1].nbytes))
    for first in range(0, len(array), step):
        yield array[first : first + step]


def digest(*things: object) -> str:
    """SHA-256 of the text of some values."""
    return hashlib.sha256(repr(things).encode()).hexdigest()


def file_fingerprint(path: Path, limit: int = FULL_BYTES, tail: int = PIECE) -> Fingerprint:
    """The fingerprint of a file: its size and all its bytes, so that a copy has the same.

    For a file above `limit` bytes, the time of its last change, its last `tail` bytes and some
    pieces are used instead.
    """
    check = Checksum()
    with path.open("rb") as file:
        facts = os.fstat(file.fileno())
        if facts.st_size <= limit:
            spans = [(0, facts.st_size)]
        else:
            spread = np.linspace(0, facts.st_size - PIECE, PIECES).astype(np.int64).tolist()
            spans = [*((place, PIECE) for place in spread), (facts.st_size - tail, tail)]
        for start, length in spans:
            _add_span(check, file, start, length)
    changed = facts.st_mtime_ns if facts.st_size > limit else 0
    when = datetime.fromtimestamp(facts.st_mtime_ns // 10**9, UTC)
    words = f"{path.name} of {facts.st_size:,} bytes, modified {when:%Y-%m-%d %H:%M:%S} UTC"
    return [[words, digest(facts.st_size, changed, check.value())]]


def _add_span(check: Checksum, file: BinaryIO, start: int, length: int) -> None:
    file.seek(max(0, start))
    while length > 0 and (data := file.read(min(length, CHUNK))):
        check.add_bytes(memoryview(data))
        length -= len(data)


def weight_fingerprint(column: str | None) -> Fingerprint:
    """The fingerprint of the column of weights, if any."""
    return [] if column is None else [[f"weights in column {column!r}", digest(column)]]


def difference(before: Fingerprint, now: Fingerprint) -> str | None:
    """A description of how two fingerprints differ; None if they are equal."""
    nothing = ["", ""]
    for was, found in zip_longest(before, now, fillvalue=nothing):
        if was[1] == found[1]:
            continue
        if was is nothing:
            return f"it was made without {found[0]}"
        if found is nothing:
            return f"it was made with {was[0]}, which is not there now"
        if was[0] == found[0]:
            return f"it was made from {was[0]}, which has other contents now"
        return f"it was made from {was[0]}, and now there is {found[0]}"
    return None
