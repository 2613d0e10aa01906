"""The protocol of engines, which distribute work over partitions of the data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

from mixfold.core.errors import InvalidInputError
from mixfold.core.registry import find_all
from mixfold.core.source import Source

T = TypeVar("T")
Folded = TypeVar("Folded")

FAN_IN = 8

RowWork = Callable[[Source], Any]
"""Computes an array from rows."""


class Work(Protocol[Folded]):
    """The functions that workers run; they have no side effects.

    `opened(*where)` is the source of a partition.
    """

    def begin(self, before: object, shard: int) -> Folded: ...
    def fold(
        self, folded: Folded, partition: int, opened: Callable[..., Source], *where: object
    ) -> Folded: ...
    def merge(self, before: object, folded: Sequence[Folded]) -> Folded: ...


class Engine(ABC):
    """Processes the partitions of each shard in order, and merges the shards in a tree.

    A user chooses an engine by `cluster`: its name, or an address that it `accepts`; `served`
    describes these for error messages. An engine that reads the collections of its own library is a
    `DataHolder` too.
    """

    served: ClassVar[str]
    # whether workers are other processes, which read the data themselves
    remote: ClassVar[bool] = True

    @classmethod
    def accepts(cls, cluster: object) -> bool:
        """Whether an address, or a cluster of another library, is one of this engine's."""
        return False

    @classmethod
    @abstractmethod
    def connect(cls, cluster: Any) -> AbstractContextManager[Engine]:
        """The engine at an address or of a cluster, or by default."""

    @abstractmethod
    def reduce(
        self, work: Work[Folded], before: object, shards: Sequence[Sequence[Source]]
    ) -> Folded:
        """The merged result of all shards."""


@runtime_checkable
class DataHolder(Protocol):
    """An engine that reads the collections of its own library."""

    @classmethod
    def holds(cls, data: object) -> bool:
        """Whether the data are a collection of this engine."""

    @classmethod
    def open(
        cls,
        data: object,
        columns: Sequence[str] | None,
        weight: str | None,
        codes: Any = None,
    ) -> Source:
        """A source over a collection of the engine; its `engine` is the name of the engine.

        `codes` stand for values that are not numeric.
        """

    @classmethod
    def in_memory(cls) -> str:
        """How users bring a collection X to the memory of this process."""

    @classmethod
    def in_sorted_files(cls) -> str:
        """How users write a collection X to Parquet files, sorted by a column called group."""

    @classmethod
    def typed_table(cls, data: Any) -> Any:
        """An Arrow table, with or without rows, that tells the types of all columns."""

    @classmethod
    def distinct_values(cls, data: Any, column: str, most: int) -> Any:
        """The different values of a column as an Arrow array; if they are many, `most` of them."""


class RowResult(NamedTuple):
    """What is computed for every row: one number, called `name`, or one for each of `names`."""

    name: str
    dtype: Any
    names: Sequence[str] | None = None


@runtime_checkable
class LazyRows(Protocol):
    """An engine whose collections can be results too, which are computed when they are needed.

    `work` is called with the rows of a partition. `columns` and `codes` are as for `open`.
    """

    @classmethod
    def map_rows(
        cls, data: Any, work: RowWork, result: RowResult, columns: Sequence[str] | None, codes: Any
    ) -> object:
        """A collection with the result of every row, divided as the data are."""

    @classmethod
    def total(
        cls, data: Any, work: RowWork, columns: Sequence[str] | None, codes: Any, cluster: Any
    ) -> Any:
        """The sum of what `work` returns for the partitions, in one computation."""


def engine_holding(data: object) -> type[DataHolder] | None:
    """The engine whose collection the data are; None for other data."""
    holders = (kind for kind in find_all("engines").values() if issubclass(kind, DataHolder))
    return next((kind for kind in holders if kind.holds(data)), None)


def address_of(cluster: Any) -> Any:
    """The address of a client or of a cluster, by which another process connects to it."""
    if isinstance(cluster, str):
        return cluster
    scheduler = getattr(cluster, "scheduler", None)
    return getattr(cluster, "scheduler_address", getattr(scheduler, "address", cluster))


def refuse_partitions(data: object) -> None:
    """Refuse collections of an engine, whose partitions may divide a group."""
    kind = engine_holding(data)
    if kind is not None:
        raise InvalidInputError(
            f"X is a {kind.__name__} {type(data).__name__}, which mixed-effects models do not "
            "read, since a group must not be spread over partitions: give "
            f"{kind.in_memory()} if it fits in memory, else write it sorted by group, "
            f"{kind.in_sorted_files()}, and give the path"
        )


def tree(leaves: Sequence[T], join: Callable[[list[T]], T]) -> T:
    """Merge in a tree, `FAN_IN` neighbours at a time; its shape depends on their number alone."""
    level = list(leaves)
    while len(level) > 1:
        level = join_neighbours(level, join)
    return level[0]


def join_neighbours(level: Sequence[T], join: Callable[[list[T]], T]) -> list[T]:
    """The next level of the tree."""
    return [join(list(level[i : i + FAN_IN])) for i in range(0, len(level), FAN_IN)]
