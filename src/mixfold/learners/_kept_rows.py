"""A uniform random sample of the rows of a stream, in bounded memory.

Every row has a random key that depends on its number alone, and the rows whose keys are below a
threshold are kept. The threshold is halved when they do not fit into the memory any more, so that
the sample does not depend on the blocks in which rows arrive.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mixfold.core.backend import Model
from mixfold.core.checks import check_above, check_array
from mixfold.core.errors import InvalidInputError
from mixfold.core.noise import uniforms
from mixfold.core.rows import Array, Rows, join, no_rows
from mixfold.core.value import value

UNIT = 4  # rows of the smallest block; others have a power of two times as many
JOINED_BYTES = 2**23  # rows of all blocks are copied into one for a refit up to this size


@value
class KeptBlock:
    """Rows with their keys and their numbers in the stream."""

    rows: Rows
    keys: Array
    numbers: NDArray[np.int64]

    def cut(self, start: int, stop: int) -> KeptBlock:
        """Rows start..stop-1, copied, so that memory of the others can be freed."""
        return KeptBlock(
            self.rows.cut(start, stop).copy(),
            self.keys[start:stop].copy(),
            self.numbers[start:stop].copy(),
        )

    def where(self, chosen: NDArray[np.bool_]) -> KeptBlock:
        """The selected rows."""
        return KeptBlock(self.rows.where(chosen), self.keys[chosen], self.numbers[chosen])

    def renumbered(self, shift: int) -> KeptBlock:
        """The rows with other numbers."""
        return KeptBlock(self.rows, self.keys, self.numbers + shift)

    def __len__(self) -> int:
        return len(self.keys)


@value
class KeptRows:
    """The rows with keys below a threshold, in the order of the stream.

    The sizes of the blocks depend on the number of rows alone.
    """

    blocks: tuple[KeptBlock, ...]
    below: float

    def __len__(self) -> int:
        return sum(map(len, self.blocks))

    def check(self, model: Model) -> None:
        """Raise an error for invalid rows, keys or numbers."""
        check_above("below", self.below, 0.0, 1.0 + 1e-9)
        for block in self.blocks:
            n = len(block.rows)
            model.check_rows(block.rows)
            check_array("keys", block.keys, (n,), 0.0, self.below)
            if block.numbers.shape != (n,) or (n and block.numbers.min() < 0):
                raise InvalidInputError("the numbers of kept rows are not one for each row")

    def with_rows(self, rows: Rows, seed: int, first: int, most: int) -> KeptRows:
        """The sample after more rows, of which the first is number `first`; `most` are kept."""
        keys = uniforms(seed, first, len(rows))[:, 0]
        chosen = keys < self.below
        if rows.weight is not None:
            chosen &= rows.weights() > 0.0
        if not chosen.any():
            return self
        numbers = np.arange(first, first + len(rows), dtype=np.int64)
        more = KeptBlock(rows.on_host(), keys, numbers)
        return self.joined([more.where(chosen)]).reduced(most)

    def joined(self, more: Sequence[KeptBlock]) -> KeptRows:
        """The sample with further blocks."""
        sizes = _sizes(len(self) + sum(map(len, more)))
        same = 0
        for block, size in zip(self.blocks, sizes, strict=False):
            if len(block) != size:
                break
            same += 1
        rest = _joined([*self.blocks[same:], *more])
        ends = np.cumsum(sizes[same:])
        parts = [rest.cut(end - size, end) for end, size in zip(ends, sizes[same:], strict=True)]
        return KeptRows((*self.blocks[:same], *parts), self.below)

    def reduced(self, most: int) -> KeptRows:
        """The sample with half the threshold, as often as there are more than `most` rows."""
        kept = self
        while len(kept) > most:
            kept = kept.with_threshold(kept.below / 2.0)
        return kept

    def with_threshold(self, below: float) -> KeptRows:
        """The rows with keys below a smaller threshold."""
        if below >= self.below:
            return self
        parts = [block.where(block.keys < below) for block in self.blocks]
        return KeptRows((), below).joined(parts)

    def since(self, number: int) -> list[KeptBlock]:
        """The rows from a number on."""
        return [block.where(block.numbers >= number) for block in self.blocks]

    def until(self, number: int) -> list[KeptBlock]:
        """The rows before a number."""
        return [block.where(block.numbers < number) for block in self.blocks]

    def among(self, number: int, below: float) -> KeptBlock:
        """The rows before a number whose keys are below a threshold."""
        return _joined([block.where(block.keys < below) for block in self.until(number)])

    def between(self, start: int, stop: int) -> list[Rows]:
        """Kept rows start..stop-1 of the sample."""
        found, first = [], 0
        for block in self.blocks:
            last = first + len(block)
            if start < last and first < stop:
                found.append(block.rows.cut(max(start - first, 0), min(stop, last) - first))
            first = last
        return found

    def take(self, indices: NDArray[np.int64]) -> Rows:
        """Some of the kept rows, in the order of the stream."""
        chosen = np.zeros(len(self), dtype=bool)
        chosen[indices] = True
        ends = np.cumsum([len(block) for block in self.blocks])[:-1]
        parts = zip(self.blocks, np.split(chosen, ends), strict=True)
        return join([block.rows.where(own) for block, own in parts])

    def parts(self) -> list[Rows]:
        """The rows in few blocks, for passes over them."""
        rows = [block.rows for block in self.blocks]
        size = sum(one.x.nbytes for one in rows)
        return [join(rows)] if rows and size <= JOINED_BYTES else rows

    def sample(self, size: int) -> Rows:
        """The rows with the smallest keys, in the order of the stream."""
        parts = self.parts()
        if len(self) <= size:
            return join(parts)
        keys = np.concatenate([block.keys for block in self.blocks])
        limit = np.partition(keys, size)[size]
        return join([block.rows.where(block.keys < limit) for block in self.blocks])


def nothing_kept(below: float = 1.0) -> KeptRows:
    """An empty sample."""
    return KeptRows((), below)


def same_rows(one: KeptBlock, other: KeptBlock) -> bool:
    """Whether two blocks have the same rows with the same weights and numbers."""
    return (
        np.array_equal(one.numbers, other.numbers)
        and np.array_equal(one.rows.x, other.rows.x, equal_nan=True)
        and np.array_equal(one.rows.weights(), other.rows.weights())
    )


def power_of_two(n: int) -> int:
    """The largest power of two up to n."""
    return 1 << (n.bit_length() - 1)


def _sizes(n: int) -> list[int]:
    """The lengths of blocks of n rows: powers of two times the unit, falling, then the rest."""
    whole, rest = divmod(n, UNIT)
    sizes = [UNIT << bit for bit in reversed(range(whole.bit_length())) if whole >> bit & 1]
    return [*sizes, rest] if rest else sizes


def _joined(blocks: Sequence[KeptBlock]) -> KeptBlock:
    some = [block for block in blocks if len(block)]
    if not some:
        return KeptBlock(no_rows(0), np.empty(0), np.empty(0, dtype=np.int64))
    return KeptBlock(
        join([block.rows for block in some]),
        np.concatenate([block.keys for block in some]),
        np.concatenate([block.numbers for block in some]),
    )
