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


def close(a: Any, b: Any, rtol: float = 1e-9) -> None:
    np.testing.assert_allclose(a.alpha, b.alpha, rtol)
    for name in field_names(a.components):
        found, expected = getattr(a.components, name), getattr(b.components, name)
        np.testing.assert_allclose(found, expected, rtol, 1e-12, err_msg=name)
