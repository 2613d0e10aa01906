"""Rows with a column of labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mixfold.core.fingerprint import FULL_BYTES, Fingerprint
from mixfold.core.rows import Array, Rows, join
from mixfold.core.source import Drawn, Source, join_drawn
from mixfold.sources.array_source import ArraySource

ToCodes = Callable[[Array], Array]
"""Codes of labels from the numbers in their column; -1 where a label is not known."""


class LabelledArray(ArraySource):
    """Rows in memory, whose last column holds codes of labels."""

    def sample(self, n: int, rng: np.random.Generator) -> Rows:
        """A sample of n rows, among which those with labels are not rare."""
        if self.length <= n:
            return self.whole()
        return labelled_sample(self, n, rng)


class Labelled(Source):
    """The rows of a source with one of its columns moved to the end, as codes of labels."""

    def __init__(self, source: Source, name: str, to_codes: ToCodes) -> None:
        assert source.columns is not None
        self.source, self._name, self._to_codes = source, name, to_codes
        names = list(source.columns)
        place = names.index(name)
        self._order = [i for i in range(len(names)) if i != place] + [place]
        self.columns = [names[i] for i in self._order]
        self.rereadable = source.rereadable

    @property
    def d(self) -> int:
        return self.source.d

    @property
    def length(self) -> int | None:
        return self.source.length

    @property
    def random_access(self) -> bool:
        return self.source.random_access

    @property
    def is_remote_readable(self) -> bool:
        return self.source.is_remote_readable

    def anchors(self) -> Sequence[int]:
        return self.source.anchors()

    def fingerprint(self, limit: int = FULL_BYTES) -> Fingerprint:
        return self.source.fingerprint(limit)

    def partitions(self, length: int | None = None) -> Sequence[Source]:
        parts = self.source.partitions(length)
        return [Labelled(part, self._name, self._to_codes) for part in parts]

    def blocks(self, start: int = 0, length: int | None = None) -> Iterator[Rows]:
        return map(self._coded, self.source.blocks(start, length))

    def take(self, indices: NDArray[np.intp]) -> Rows:
        return self._coded(self.source.take(indices))

    def head(self, n: int) -> Rows:
        return self._coded(self.source.head(n))

    def sample(self, n: int, rng: np.random.Generator) -> Rows:
        """A sample of n rows, among which those with labels are not rare.

        It is the first rows if they can be read only once.
        """
        if not self.rereadable or (self.length is not None and self.length <= n):
            return self.head(n)
        return labelled_sample(self, n, rng)

    def _coded(self, rows: Rows) -> Rows:
        x = rows.x[:, self._order]
        x[:, -1] = self._to_codes(x[:, -1])
        return Rows(x, rows.weight)


def labelled_sample(source: Source, n: int, rng: np.random.Generator) -> Rows:
    """At most n rows, drawn uniformly among those with each label and those without any.

    Half the rows are without a label, and no label has more rows than another, if there are enough.
    One pass is read.
    """
    drawn: dict[int, Drawn] = {}
    for rows in source.blocks():
        codes, keys = rows.x[:, -1], rng.random(len(rows))
        for code in np.unique(codes).astype(np.intp).tolist():
            own = codes == code
            some = Drawn(rows.where(own), keys[own], int(own.sum()))
            parts = [drawn[code], some] if code in drawn else [some]
            drawn[code] = join_drawn(parts).smallest(n)
    sizes = _sizes({code: len(part.keys) for code, part in drawn.items()}, n)
    return join([drawn[code].smallest(sizes[code]).rows for code in sorted(drawn)])


def _sizes(found: dict[int, int], n: int) -> dict[int, int]:
    """How many rows with each code are taken, n together if there are as many."""
    labels = sorted((code for code in found if code >= 0), key=lambda code: found[code])
    left = n - min(found.get(-1, 0), n - n // 2 if labels else n)
    sizes = {}
    for i, code in enumerate(labels):
        sizes[code] = min(found[code], left // (len(labels) - i))
        left -= sizes[code]
    if -1 in found:
        sizes[-1] = min(found[-1], n - sum(sizes.values()))
    return sizes
