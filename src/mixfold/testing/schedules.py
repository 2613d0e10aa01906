"""Laws of every schedule."""

from __future__ import annotations

import numpy as np

from mixfold.core.schedule import Schedule
from mixfold.core.value import flatten, is_value, unflatten

NUMBERS = np.array([1.0, 2.0, 3.0, 10.0, 29.0, 30.0, 31.0, 1e3, 1e6, 1e9])


def steps_are_between_zero_and_one(schedule: Schedule) -> None:
    """Step sizes are in (0, 1], from the first update to the last."""
    steps = schedule(NUMBERS)
    assert ((steps > 0.0) & (steps <= 1.0)).all(), (
        f"step sizes must be > 0 and <= 1; those of updates {NUMBERS} are {steps}"
    )


def a_step_depends_on_its_number_alone(schedule: Schedule) -> None:
    """Numbers may come one by one, as a list, as whole numbers and in any shape."""
    steps = schedule(NUMBERS)
    assert steps.dtype == np.float64, f"step sizes are {steps.dtype}: return float64"
    np.testing.assert_array_equal(steps, schedule(NUMBERS.tolist()))
    np.testing.assert_array_equal(steps, schedule(NUMBERS.astype(np.int64)))
    np.testing.assert_array_equal(steps, [float(schedule(r)) for r in NUMBERS])
    np.testing.assert_array_equal(steps.reshape(2, -1), schedule(NUMBERS.reshape(2, -1)))


def saving_does_not_matter(schedule: Schedule) -> None:
    """A schedule is a value that model files can hold."""
    assert is_value(schedule), f"{type(schedule).__name__} needs the decorator @value"
    arrays: dict[str, np.ndarray] = {}
    loaded = unflatten(flatten(schedule, "schedule", arrays), arrays)
    np.testing.assert_array_equal(loaded(NUMBERS), schedule(NUMBERS))


LAWS = [steps_are_between_zero_and_one, a_step_depends_on_its_number_alone, saving_does_not_matter]
