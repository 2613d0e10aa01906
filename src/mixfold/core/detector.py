"""The base class of change detectors: pure functions of a state, and river's methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import isnan
from typing import ClassVar, Generic, Literal

from mixfold.core.errors import InvalidInputError
from mixfold.core.params import DetectorStateT

Reading = Literal["log-likelihood", "density", "features"]
"""Of every window: its mean log-likelihood before it was learned; the mean of clipped log densities
under a reference; or the means of several numbers under the reference, given together."""

LARGEST_NUMBER = 1e150  # larger numbers are clipped to this one, so that sums stay finite


class Detector(ABC, Generic[DetectorStateT]):
    """state + number -> state. Hyper-parameters are the fields of a frozen dataclass.

    Learners call `init` and `step` and store the state, which has a field `drift_detected`. Like
    the detectors of river, a detector can also be used alone with `update` and `drift_detected`; it
    then stores the state itself.
    """

    reads: ClassVar[Reading] = "log-likelihood"  # which numbers learners give it
    _state: DetectorStateT | None = (
        None  # the state after `update`; it is no hyper-parameter and is not saved
    )

    @abstractmethod
    def init(self) -> DetectorStateT:
        """The initial state."""

    @abstractmethod
    def step(self, state: DetectorStateT, x: float) -> DetectorStateT:
        """The state after one more number. After a detection it starts from the initial state."""

    @abstractmethod
    def check_state(self, state: DetectorStateT) -> None:
        """Raise an error for an invalid state."""

    def update(self, x: float) -> None:
        """Update the detector with one number of a stream."""
        before = self.init() if self._state is None else self._state
        object.__setattr__(self, "_state", self.step(before, x))

    @property
    def drift_detected(self) -> bool:
        """Whether a change was detected at the last `update`."""
        return self._state is not None and bool(self._state.drift_detected)


def finite(x: float) -> float:
    """The number, clipped to a finite range; NaN is refused."""
    if isnan(x):
        raise InvalidInputError("a detector was given NaN: it needs numbers")
    return min(max(float(x), -LARGEST_NUMBER), LARGEST_NUMBER)
