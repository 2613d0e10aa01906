"""Which backend computes, and which engine has the partitions: both are asked of the registry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mixfold.backends.threads import Threads
from mixfold.core.errors import InvalidInputError
from mixfold.core.problem import Model, Problem
from mixfold.core.registry import find_all


@dataclass(frozen=True)
class Placement:
    """A kind of backend and its device."""

    kind: Any
    device: Any

    @property
    def is_default(self) -> bool:
        """Whether it is the memory and the cores of this machine."""
        return self.kind is Threads

    @property
    def tensor_device(self) -> Any:
        """The device that tensors go to; None where they become arrays."""
        return None if self.is_default else self.device

    def backend(self, model: Model, n_threads: int | None) -> Problem:
        """A model bound to this place."""
        bound: Problem = self.kind.on(model, self.device, n_threads)
        return bound


DEFAULT = Placement(Threads, "cpu")


def placement_for(engine: Any, data: Any) -> Placement:
    """The backend that an engine's name stands for, or that has the data; else the CPU."""
    kinds = find_all("backends").values()
    if engine is None:
        found = ((kind, kind.device_of(data)) for kind in kinds)
        return next((Placement(*pair) for pair in found if pair[1] is not None), DEFAULT)
    if isinstance(engine, str):
        for kind in kinds:
            device = kind.device(engine)
            if device is not None:
                return Placement(kind, device)
    served = ", ".join(kind.served for kind in kinds)
    raise InvalidInputError(f"engine is {engine!r}: one of {served} is needed")
