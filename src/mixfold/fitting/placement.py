"""Choice of the backend and the engine, which are found in the registry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from mixfold.backends.threads import Threads
from mixfold.core.backend import Backend, Model
from mixfold.core.engine import Engine
from mixfold.core.errors import InvalidInputError
from mixfold.core.registry import find_all
from mixfold.core.source import Source

M = TypeVar("M", bound=Model)


@dataclass(frozen=True)
class Placement:
    """A kind of backend and its device."""

    kind: Any
    device: Any

    @property
    def is_default(self) -> bool:
        """Whether it is the CPU of this machine."""
        return self.kind is Threads

    @property
    def tensor_device(self) -> Any:
        """The device for tensors; None if they are converted to arrays."""
        return None if self.is_default else self.device

    def backend(self, model: M, n_threads: int | None) -> Backend[M]:
        """A model bound to this backend."""
        bound: Backend[M] = self.kind.on(model, self.device, n_threads)
        return bound


DEFAULT = Placement(Threads, "cpu")


def placement_for(engine: Any, data: Any) -> Placement:
    """The backend named by `engine`, or the one that holds the data, or the CPU."""
    kinds = find_all("backends").values()
    if engine is None:
        found = ((kind, kind.device_of(data)) for kind in kinds)
        return next((Placement(*pair) for pair in found if pair[1] is not None), DEFAULT)
    if isinstance(engine, str):
        for kind in kinds:
            device = kind.device_named(engine)
            if device is not None:
                return Placement(kind, device)
    served = ", ".join(kind.served for kind in kinds)
    raise InvalidInputError(f"engine is {engine!r}: one of {served} is needed")


@contextmanager
def engine_for(cluster: Any, source: Source, place: Placement) -> Iterator[Engine | None]:
    """The engine at an address, or that of the data; None for this process."""
    if cluster is None and source.engine is None:
        yield None
        return
    if not place.is_default:
        raise InvalidInputError(
            f"cluster and engine cannot be combined: workers cannot use {place.device} of this "
            "process; leave engine out, or use neither cluster nor data of a cluster"
        )
    kind = engine_called(source.engine if cluster is None else cluster)
    if kind.remote and not source.is_remote_readable:
        raise InvalidInputError(
            f"cluster is {cluster!r}, but workers cannot read rows that are in the memory of this "
            "process: give files or a collection of the cluster, or leave cluster out to use all "
            "cores here"
        )
    with source.kept(), kind.connect(cluster) as engine:
        yield engine


def engine_called(cluster: Any) -> type[Engine]:
    """The engine that has this name, or accepts this address or cluster."""
    kinds = find_all("engines")
    named = kinds.get(cluster) if isinstance(cluster, str) else None
    accepting = (kind for kind in kinds.values() if kind.accepts(cluster))
    found: type[Engine] | None = named or next(accepting, None)
    if found is not None:
        return found
    served = ", ".join(kind.served for kind in kinds.values())
    raise InvalidInputError(f"cluster is {cluster!r}: one of {served} is needed")
