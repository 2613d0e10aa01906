"""Moments matched, and posteriors compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.backends.threads import Threads
from mixfold.core.backend_capabilities import MomentMatcher, required
from mixfold.core.rows import Rows
from mixfold.core.value import field_names


def matched(backend: Threads, posterior: Any, rows: Rows) -> tuple[Any, float, int]:
    return required(backend, MomentMatcher).match(posterior, rows)


def numbers(thing: Any) -> list[np.ndarray]:
    """All arrays of a posterior, in order."""
    if isinstance(thing, np.ndarray):
        return [thing]
    parts = thing if isinstance(thing, tuple) else [getattr(thing, n) for n in field_names(thing)]
    return [array for part in parts for array in numbers(part)]


def close(a: Any, b: Any, rtol: float = 1e-9) -> None:
    pairs = list(zip(numbers(a), numbers(b), strict=True))
    assert pairs
    for found, expected in pairs:
        np.testing.assert_allclose(found, expected, rtol, 1e-12)
