"""What an engine that shares work out is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from mixfold.core.source import Source

T = TypeVar("T")

FAN_IN = 8


class Work(Protocol):
    """What workers do: pure functions of small values and of where rows are.

    `opened(*where)` is the source of a partition.
    """

    def begin(self, before: Any, shard: int) -> Any: ...
    def fold(self, folded: Any, partition: int, opened: Any, *where: Any) -> Any: ...
    def merge(self, before: Any, folded: Sequence[Any]) -> Any: ...


class Engine(Protocol):
    """Folds the partitions of each shard one after the other, and merges the shards in a tree."""

    def reduce(self, work: Work, before: Any, shards: Sequence[Sequence[Source]]) -> Any: ...


def tree(leaves: Sequence[T], join: Callable[[list[T]], T]) -> T:
    """One thing from many, `FAN_IN` neighbours at a time; their number alone makes the shape."""
    level = list(leaves)
    while len(level) > 1:
        level = [join(level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
    return level[0]
