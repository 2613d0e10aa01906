"""What a detector of change is: pure functions of a small state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class Detector(ABC):
    """state + number -> state. Hyper-parameters are the fields of a frozen dataclass."""

    @abstractmethod
    def begin(self) -> Any:
        """The state before any number."""

    @abstractmethod
    def hear(self, state: Any, number: float) -> tuple[Any, bool]:
        """Take in a number; and whether the stream has fallen. If so, the state begins anew."""
