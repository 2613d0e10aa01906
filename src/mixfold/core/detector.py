"""What a detector of change is: pure functions of a small state, and river's methods over them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import isnan
from typing import Generic

from mixfold.core.errors import InvalidInputError
from mixfold.core.params import DetectorStateT

LARGEST_NUMBER = 1e150  # numbers beyond count as this one, so that sums stay finite


class Detector(ABC, Generic[DetectorStateT]):
    """state + number -> state. Hyper-parameters are the fields of a frozen dataclass.

    Learners call `init` and `step` and keep the state, a value with a field `drift_detected`. For a
    stream of your own, `update` and `drift_detected` are those of river's detectors: the detector
    then keeps the state itself.
    """

    _state: DetectorStateT | None = (
        None  # what `update` has led to; no hyper-parameter, and not saved
    )

    @abstractmethod
    def init(self) -> DetectorStateT:
        """The state before any number."""

    @abstractmethod
    def step(self, state: DetectorStateT, x: float) -> DetectorStateT:
        """The state with one more number. It begins anew after a change was detected."""

    @abstractmethod
    def check_state(self, state: DetectorStateT) -> None:
        """Refuse a state that no numbers can have led to."""

    def update(self, x: float) -> None:
        """Take in one number of a stream."""
        before = self.init() if self._state is None else self._state
        object.__setattr__(self, "_state", self.step(before, x))

    @property
    def drift_detected(self) -> bool:
        """Whether the number last given to `update` has shown a change."""
        return self._state is not None and bool(self._state.drift_detected)


def finite(x: float) -> float:
    """A number that can be added up; NaN is refused."""
    if isnan(x):
        raise InvalidInputError("a detector was given NaN: it needs numbers")
    return min(max(float(x), -LARGEST_NUMBER), LARGEST_NUMBER)
