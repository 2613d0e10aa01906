"""A block of rows with optional weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixfold.core.arrays import concatenated, copied, nan_to_zero, on_host, to_device_of
from mixfold.core.checks import check_array
from mixfold.core.limits import HEAVIEST, LARGEST
from mixfold.core.value import value

Array = NDArray[np.float64]


@value
class Rows:
    """`x` is (n, d), float32 or float64; `weight` is (n,) or None for ones.

    Both may be tensors on a device, and stay there.
    """

    x: NDArray[Any]
    weight: Array | None = None

    def __len__(self) -> int:
        return int(self.x.shape[0])

    def check(self, d: int, missing: bool = False) -> None:
        """Refuse other than d columns, numbers that are not finite, and negative weights.

        With `missing`, NaN is a cell that was not observed.
        """
        n = len(self) if self.x.ndim else 0
        x = self.observed().x if missing else self.x
        check_array("x", x, (n, d), -LARGEST, LARGEST)
        if self.weight is not None:
            check_array("weight", self.weight, (n,), 0.0, HEAVIEST)

    def observed(self) -> Rows:
        """The rows with missing cells (NaN) replaced by zeros."""
        return Rows(nan_to_zero(self.x), self.weight)

    def cut(self, start: int, stop: int) -> Rows:
        """Rows start..stop-1, as views."""
        weight = None if self.weight is None else self.weight[start:stop]
        return Rows(self.x[start:stop], weight)

    def where(self, chosen: NDArray[np.bool_]) -> Rows:
        """The selected rows."""
        return Rows(self.x[chosen], None if self.weight is None else self.weight[chosen])

    def copy(self) -> Rows:
        """A copy of the rows."""
        return Rows(copied(self.x), None if self.weight is None else copied(self.weight))

    def on_host(self) -> Rows:
        """The same rows in this machine's memory."""
        if isinstance(self.x, np.ndarray):
            return self
        return Rows(on_host(self.x), None if self.weight is None else on_host(self.weight))

    def weights(self) -> Array:
        """The weights in this machine's memory, ones where none are given."""
        return np.ones(len(self)) if self.weight is None else on_host(self.weight)

    def total_weight(self) -> float:
        """Sum of the weights."""
        return float(len(self)) if self.weight is None else float(self.weight.sum())

    def lightest(self) -> float:
        """The smallest weight above zero; infinity if there is none."""
        if self.weight is None:
            return 1.0 if len(self) else float("inf")
        positive = self.weight[self.weight > 0]
        return float(positive.min()) if len(positive) else float("inf")


def effective_number(weight: Array) -> float:
    """How many rows of equal weight tell as much as rows of these weights (Kish 1965)."""
    return float(np.square(weight.sum()) / max(weight @ weight, np.finfo(np.float64).tiny))


def join(parts: Sequence[Rows]) -> Rows:
    """Concatenate blocks of rows."""
    if len(parts) == 1:
        return parts[0]
    x = concatenated([p.x for p in parts])
    if all(p.weight is None for p in parts):
        return Rows(x)
    weights = [np.ones(len(p)) if p.weight is None else p.weight for p in parts]
    return Rows(x, concatenated([to_device_of(x, weight) for weight in weights]))


def rows_at_a_time(rows: Rows, length: int) -> Iterator[Rows]:
    """Iterate over at most `length` rows at a time; at least one block, which may be empty."""
    return (rows.cut(first, first + length) for first in range(0, len(rows) or 1, length))


def stretches(n: int, length: int) -> Iterator[slice]:
    """Divide 0 .. n-1 into ranges of `length`; the last may be shorter."""
    return (slice(first, min(first + length, n)) for first in range(0, n, length))


def no_rows(d: int, like: Rows | None = None) -> Rows:
    """An empty block of d columns."""
    return Rows(np.empty((0, d), dtype=np.float64 if like is None else like.x.dtype))


def in_tiles(blocks: Iterable[Rows], length: int) -> Iterator[Rows]:
    """The rows of blocks of any sizes in blocks of `length`; the last may be shorter."""
    waiting: list[Rows] = []
    n = 0
    for block in blocks:
        first = 0
        while n + len(block) - first >= length:
            last = first + length - n
            yield join([*waiting, block.cut(first, last)])
            waiting, n, first = [], 0, last
        if first < len(block):
            waiting.append(block.cut(first, len(block)).copy())
            n += len(block) - first
    if n:
        yield join(waiting)
