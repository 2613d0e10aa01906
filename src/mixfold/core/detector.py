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
    def check_state(self, state: Any) -> None:
        """Refuse a state that no numbers can have led to."""

    @abstractmethod
    def hear(self, state: Any, number: float) -> tuple[Any, bool]:
        """Take in a number; and whether the stream has fallen. If so, the state begins anew."""
