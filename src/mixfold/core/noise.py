"""Random numbers that belong to a row: the same however rows are cut into blocks."""

from __future__ import annotations

import numpy as np

from mixfold.core.rows import Array

PER_COUNT = 4  # numbers Philox makes for one value of its counter


def uniforms(seed: int, first: int, n: int, width: int = 1) -> Array:
    """Uniform numbers (n, width) of rows number first .. first + n - 1, in [0, 1)."""
    count, skip = divmod(first * width, PER_COUNT)
    numbers = np.random.Generator(np.random.Philox(key=seed, counter=count))
    return numbers.random(skip + n * width)[skip:].reshape(n, width)
