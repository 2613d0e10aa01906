"""Random numbers that belong to a row: the same however rows are cut into blocks."""

from __future__ import annotations

import numpy as np

from mixfold.core.rows import Array


def uniforms(seed: int, first: int, n: int, width: int = 1) -> Array:
    """Uniform numbers (n, width) of rows number first .. first + n - 1, in [0, 1)."""
    numbers = np.random.PCG64DXSM(seed)
    numbers.advance(first * width)
    return np.random.Generator(numbers).random((n, width))
