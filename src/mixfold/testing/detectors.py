"""Laws of every detector."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.core.detector import Detector
from mixfold.core.errors import InvalidInputError
from mixfold.core.value import equal, flatten, unflatten


def numbers(fall: float = 0.0) -> list[float]:
    """Noise of unit scale, and as much again that lies lower by `fall`."""
    rng = np.random.default_rng(0)
    return [*rng.normal(size=300), *(rng.normal(size=300) - fall)]


def states(detector: Detector, stream: list[float]) -> list[Any]:
    """The state after every number."""
    found, state = [], detector.init()
    for x in stream:
        state = detector.step(state, x)
        found.append(state)
    return found


def a_large_fall_is_detected(detector: Detector) -> None:
    """A fall of a hundred deviations is found after it has happened; noise alone is no change."""
    noise = [state.drift_detected for state in states(detector, numbers())]
    assert not any(noise), f"a change is detected in noise, at number {noise.index(True)}"
    found = [state.drift_detected for state in states(detector, numbers(100.0))]
    assert not any(found[:300]), "a change is detected before the fall"
    assert any(found[300:330]), "a fall of 100 deviations is not detected within 30 numbers"


def it_begins_anew(detector: Detector) -> None:
    """After a change was detected, the next number is the first."""
    after = states(detector, numbers(100.0))
    first = next(i for i, state in enumerate(after) if state.drift_detected)
    assert equal(detector.step(after[first], 1.0), detector.step(detector.init(), 1.0)), (
        "after a detected change, step must start from init()"
    )


def states_are_in_their_domain(detector: Detector) -> None:
    """Every state passes the checks that states in files must pass, and goes on once loaded."""
    stream = [*numbers(3.0), 1e200, -1e200, np.inf, -np.inf, 0.0]
    for before, after, x in zip(
        [detector.init(), *states(detector, stream)], states(detector, stream), stream, strict=False
    ):
        detector.check_state(after)
        arrays: dict[str, np.ndarray] = {}
        loaded = unflatten(flatten(before, "state", arrays), arrays)
        assert equal(detector.step(loaded, x), after)


def no_number_is_refused(detector: Detector) -> None:
    """NaN is an error, and leaves the detector as it was."""
    state = states(detector, numbers())[-1]
    try:
        detector.step(state, float("nan"))
    except InvalidInputError:
        return
    raise AssertionError("step accepts NaN: call mixfold.core.detector.finite(x) first")


def updates_are_steps(detector: Detector) -> None:
    """`update` and `drift_detected` tell what `step` tells."""
    expected = [state.drift_detected for state in states(detector, numbers(100.0))]
    found = []
    for x in numbers(100.0):
        detector.update(x)
        found.append(detector.drift_detected)
    assert found == expected


LAWS = [
    a_large_fall_is_detected,
    it_begins_anew,
    states_are_in_their_domain,
    no_number_is_refused,
    updates_are_steps,
]
