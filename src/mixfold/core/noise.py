"""Random numbers that belong to a row: the same however rows are cut into blocks."""

from __future__ import annotations

import numpy as np

from mixfold.core.rows import Array


def generator(seed: int, first: int) -> np.random.PCG64DXSM:
    """The generator that stands at number `first` of its sequence."""
    numbers = np.random.PCG64DXSM(seed)
    numbers.advance(first)
    return numbers


def uniforms(seed: int, first: int, n: int, width: int = 1) -> Array:
    """Uniform numbers (n, width) of rows number first .. first + n - 1, in [0, 1)."""
    return np.random.Generator(generator(seed, first * width)).random((n, width))


def words(seed: int, first: int) -> list[int]:
    """What compiled code needs to draw the same numbers: state and increment in 64-bit halves."""
    state = generator(seed, first).state["state"]
    return [half for word in (state["state"], state["inc"]) for half in divmod(word, 1 << 64)]
