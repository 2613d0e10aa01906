"""Several sources, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mixfold.core.errors import SourceError
from mixfold.core.fingerprint import FULL_BYTES, Fingerprint
from mixfold.core.rows import Rows
from mixfold.core.source import Source

REMEDY = (
    "all files of a fit need the same columns: choose those that all have with columns=[...] "
    "(--columns)"
)


class Concatenated(Source):
    """Parts with the same columns in the same order."""

    def __init__(self, parts: Sequence[Source], names: Sequence[str]) -> None:
        first = parts[0]
        for part, name in zip(parts, names, strict=True):
            if part.d != first.d or part.columns != first.columns:
                raise SourceError(difference(name, part, names[0], first))
        self.parts = list(parts)
        self.columns = first.columns

    @property
    def d(self) -> int:
        return self.parts[0].d

    @property
    def length(self) -> int | None:
        lengths = [part.length for part in self.parts]
        return sum(n for n in lengths if n is not None) if None not in lengths else None

    @property
    def is_remote_readable(self) -> bool:
        return all(part.is_remote_readable for part in self.parts)

    def fingerprint(self, limit: int = FULL_BYTES) -> Fingerprint:
        share = limit // len(self.parts)
        return [one for part in self.parts for one in part.fingerprint(share)]

    def anchors(self) -> list[int]:
        found, first = [0], 0
        for part in self.parts:
            if part.length is None:
                break
            found += [first + anchor for anchor in part.anchors() if first + anchor > 0]
            first += part.length
        return found

    def partitions(self, length: int | None = None) -> Sequence[Source]:
        step = length or self.part_length()
        return [one for part in self.parts for one in part.partitions(step)]

    def blocks(self, start: int = 0, length: int | None = None) -> Iterator[Rows]:
        for part in self.parts:
            if part.length is not None and start >= part.length:
                start -= part.length
                continue
            for rows in part.blocks(start if part.length is not None else 0, length):
                skip = 0 if part.length is not None else min(start, len(rows))
                start -= skip
                if skip < len(rows):
                    yield rows.cut(skip, len(rows))
            start = 0 if part.length is not None else start


def difference(name: str, part: Source, other: str, first: Source) -> str:
    """What distinguishes the columns of a file from those of the first one."""
    if part.columns is None or first.columns is None:
        return f"{name} has {part.d} columns, but {other} has {first.d}: all files need the same"
    missing = [column for column in first.columns if column not in part.columns]
    more = [column for column in part.columns if column not in first.columns]
    found = []
    if missing:
        found.append(f"no column {missing[0]!r}, which {other} has")
    if more:
        found.append(f"a column {more[0]!r}, which {other} has not")
    if not found:
        return f"{name} has the columns of {other} in another order"
    return f"{name} has {', and '.join(found)}; {REMEDY}"
