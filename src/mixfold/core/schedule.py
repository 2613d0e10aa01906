"""The protocol of schedules: step sizes by the number of the update."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from mixfold.core.rows import Array


@runtime_checkable
class Schedule(Protocol):
    """Step sizes of updates number r = 1, 2, ..."""

    def __call__(self, r: Array | list[float], /) -> Array: ...
