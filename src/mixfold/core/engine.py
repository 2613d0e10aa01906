"""The protocol of engines, which distribute work over partitions of the data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from mixfold.core.errors import InvalidInputError
from mixfold.core.registry import find_all
from mixfold.core.source import Source

T = TypeVar("T")
Folded = TypeVar("Folded")

FAN_IN = 8


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
    def accepts(cls, cluster: Any) -> bool:
        """Whether an address, or another value of `cluster`, is one of this engine's."""
        return False

    @classmethod
    @abstractmethod
    def connect(cls, cluster: Any) -> AbstractContextManager[Engine]:
        """The engine at an address, or by default."""

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
    def typed_table(cls, data: Any) -> Any:
        """An Arrow table, with or without rows, that tells the types of all columns."""

    @classmethod
    def distinct_values(cls, data: Any, column: str, most: int) -> Any:
        """The different values of a column as an Arrow array; if they are many, `most` of them."""


@runtime_checkable
class ColumnAppender(Protocol):
    """An engine whose workers append columns to its collections."""

    @classmethod
    def with_columns(
        cls,
        data: Any,
        columns: Sequence[str] | None,
        kinds: Mapping[str, str],
        find: Callable[[Any], Mapping[str, Any]],
    ) -> Any:
        """The collection with further columns, computed when they are read.

        `find` is given some of the columns of some rows, and returns the columns of `kinds`, whose
        types are "int", "double", "doubles" for several numbers a row, or "vector".
        """

    @classmethod
    def mean(cls, data: Any, column: str) -> float:
        """The mean of a column."""


def appender_holding(data: object) -> type[ColumnAppender] | None:
    """The engine that appends columns to the data; None for other data."""
    kind: Any = engine_holding(data)
    return kind if kind is not None and issubclass(kind, ColumnAppender) else None


def engine_holding(data: object) -> type[DataHolder] | None:
    """The engine whose collection the data are; None for other data."""
    holders = (kind for kind in find_all("engines").values() if issubclass(kind, DataHolder))
    return next((kind for kind in holders if kind.holds(data)), None)


def refuse_partitions(data: object) -> None:
    """Refuse collections of an engine, whose partitions may divide a group."""
    kind = engine_holding(data)
    if kind is not None:
        raise InvalidInputError(
            f"X is a {kind.__name__} {type(data).__name__}, which mixed-effects models do not "
            "read, since a group must not be spread over partitions: give "
            f"{kind.in_memory()} if it fits in memory, else write it to Parquet files sorted by "
            "group, and give the path"
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
