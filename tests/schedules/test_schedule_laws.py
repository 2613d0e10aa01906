"""The laws of schedules, and their formulas."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mixfold.core.errors import InvalidInputError
from mixfold.core.registry import find_all
from mixfold.core.schedule import Schedule
from mixfold.schedules.constant import Constant
from mixfold.schedules.floored import Floored
from mixfold.schedules.power import Power
from mixfold.schedules.settling import Settling
from mixfold.testing import schedules

SCHEDULES: list[Schedule] = [
    *(schedule() for schedule in find_all("schedules").values()),
    Constant(1.0),
    Power(1.0, 0.5, 3.0),
    Floored(1.0, 0.0, 1.0),
    Settling(0, 0.7),
]


@pytest.mark.parametrize("law", schedules.LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_schedule(law: Callable[[Schedule], None], schedule: Schedule) -> None:
    law(schedule)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (Constant(), [0.01, 0.01, 0.01]),
        (Constant(0.3), [0.3, 0.3, 0.3]),
        (Power(), [1.0 - 1e-10, (1.0 - 1e-10) * 2**-0.6, (1.0 - 1e-10) * 40**-0.6]),
        (Power(0.75, 0.5, 3.0), [0.5 * 4**-0.75, 0.5 * 5**-0.75, 0.5 * 43**-0.75]),
        (Floored(), [0.05, 0.05 * 2**-0.51, 0.05 * 40**-0.51]),
        (Floored(0.1, 0.5, 0.02), [0.1, 0.05, 0.02]),
        (Settling(), [1.0, 1.0, 0.1]),
        (Settling(1, 0.5), [1.0, 1.0, 39**-0.5]),
    ],
    ids=repr,
)
def test_step_sizes(schedule: Schedule, expected: list[float]) -> None:
    np.testing.assert_allclose(schedule([1, 2, 40]), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("kind", "settings", "name"),
    [
        (Constant, {"step": 0.0}, "step"),
        (Constant, {"step": 1.1}, "step"),
        (Power, {"exponent": 0.0}, "exponent"),
        (Power, {"scale": 0.0}, "scale"),
        (Power, {"scale": 1.1}, "scale"),
        (Power, {"delay": -0.5}, "delay"),
        (Floored, {"first": 0.0}, "first"),
        (Floored, {"first": 1.1}, "first"),
        (Floored, {"alpha": -0.1}, "alpha"),
        (Floored, {"least": 0.0}, "least"),
        (Floored, {"least": 0.06}, "least"),
        (Settling, {"full": -1}, "full"),
        (Settling, {"exponent": 0.0}, "exponent"),
    ],
)
def test_settings_outside_their_range(kind: type, settings: dict[str, float], name: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"^{name} "):
        kind(**settings)
