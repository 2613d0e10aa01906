"""Detectors of river, such as `river.drift.ADWIN()`, as functions of a state."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

from mixfold.core.checks import check_kind
from mixfold.core.detector import Detector, Reading, finite
from mixfold.core.errors import InvalidInputError
from mixfold.core.value import value


@runtime_checkable
class RiverLike(Protocol):
    """An object that is updated with every number of a stream, as those of `river.drift`."""

    @property
    def drift_detected(self) -> bool:
        """Whether a change was detected at the last number."""

    def update(self, x: float) -> Any:
        """Update the object with one number."""
        ...

    def clone(self) -> Self:
        """An object with the same settings that has seen no numbers."""
        ...


@value
class RiverState:
    """A detector after some numbers, which is copied before every update."""

    detector: Any
    drift_detected: bool


@value
class RiverDetector(Detector[RiverState]):
    """A detector of river. The object given is never updated: what learns are copies of it.

    Model files cannot hold it, as they contain no code and no foreign objects.
    """

    reads: ClassVar[Reading] = "density"

    detector: Any

    def __post_init__(self) -> None:
        given = self.detector
        if isinstance(given, type) or not isinstance(given, RiverLike):
            raise InvalidInputError(
                f"detector is {given!r}: give e.g. SelfStartingCusum(), or an object of "
                "river.drift such as ADWIN()"
            )
        if ".binary" in type(given).__module__:
            raise InvalidInputError(
                f"detector is {type(given).__name__}, which takes errors, 0 or 1, and is given "
                "means of log densities: use e.g. river.drift.ADWIN()"
            )

    def init(self) -> RiverState:
        return RiverState(self.detector.clone(), drift_detected=False)

    def check_state(self, state: RiverState) -> None:
        check_kind("state of the detector", state, RiverState)

    def step(self, state: RiverState, x: float) -> RiverState:
        detector = self.init().detector if state.drift_detected else deepcopy(state.detector)
        detector.update(finite(x))
        return RiverState(detector, bool(detector.drift_detected))


def as_detector(given: object) -> Detector:
    """The detector, which may be one of river."""
    return given if isinstance(given, Detector) else RiverDetector(given)


def same_kind(one: Detector, other: Detector) -> bool:
    """Whether the state of one detector can be continued by the other."""
    kinds = [type(d.detector if isinstance(d, RiverDetector) else d) for d in (one, other)]
    return kinds[0] is kinds[1]
