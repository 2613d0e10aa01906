"""What an engine is: it distributes work over partitions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, Protocol, TypeVar, runtime_checkable

from mixfold.core.errors import InvalidInputError
from mixfold.core.registry import find_all
from mixfold.core.source import Source

T = TypeVar("T")
Folded = TypeVar("Folded")

FAN_IN = 8


class Work(Protocol[Folded]):
    """What workers do: pure functions of small values and of where rows are.

    `opened(*where)` is the source of a partition.
    """

    def begin(self, before: object, shard: int) -> Folded: ...
    def fold(
        self, folded: Folded, partition: int, opened: Callable[..., Source], *where: object
    ) -> Folded: ...
    def merge(self, before: object, folded: Sequence[Folded]) -> Folded: ...


class Engine(ABC):
    """Folds the partitions of each shard one after the other, and merges the shards in a tree.

    A user chooses one by `cluster`: its own name, or an address that it `accepts`; `served` says in
    words which. One that has data of its own, such as those of a library for clusters, is a
    `DataHolder` too.
    """

    served: ClassVar[str]
    remote: ClassVar[bool] = True  # whether workers read by themselves, in other processes

    @classmethod
    def accepts(cls, cluster: str) -> bool:
        """Whether an address is one of this engine's."""
        return False

    @classmethod
    @abstractmethod
    def connect(cls, cluster: str | None) -> AbstractContextManager[Engine]:
        """The engine at an address, or by default."""

    @abstractmethod
    def reduce(
        self, work: Work[Folded], before: object, shards: Sequence[Sequence[Source]]
    ) -> Folded:
        """The merged result of all shards."""


@runtime_checkable
class DataHolder(Protocol):
    """An engine that has data of a kind of its own."""

    @classmethod
    def holds(cls, data: object) -> bool:
        """Whether data lie, or are made, where this engine computes."""

    @classmethod
    def open(cls, data: object, columns: Sequence[str] | None, weight: str | None) -> Source:
        """A source over data that the engine holds; its `engine` is the name of this one."""


def engine_holding(data: object) -> type[DataHolder] | None:
    """The engine to which data belong; None for what this process reads itself."""
    holders = (kind for kind in find_all("engines").values() if issubclass(kind, DataHolder))
    return next((kind for kind in holders if kind.holds(data)), None)


def refuse_partitions(data: object) -> None:
    """Refuse data that an engine holds where the rows of a group must stay together."""
    kind = engine_holding(data)
    if kind is not None:
        raise InvalidInputError(
            f"X is a {kind.__name__} {type(data).__name__}, which mixed-effects models do not "
            "read, since a group must not be spread over partitions: give X.compute() if it fits "
            "in memory, else write it sorted by group, X.to_parquet(...), and give the path"
        )


def tree(leaves: Sequence[T], join: Callable[[list[T]], T]) -> T:
    """One thing from many, `FAN_IN` neighbours at a time; their number alone makes the shape."""
    level = list(leaves)
    while len(level) > 1:
        level = [join(level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
    return level[0]
