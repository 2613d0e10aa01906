"""Random numbers that depend on the number of a row, not on the blocks."""

from __future__ import annotations

import numpy as np

from mixfold.core.rows import Array


def generator(seed: int, first: int) -> np.random.PCG64DXSM:
    """The generator, advanced to number `first` of its sequence."""
    numbers = np.random.PCG64DXSM(seed)
    numbers.advance(first)
    return numbers


def uniforms(seed: int, first: int, n: int, width: int = 1) -> Array:
    """Uniform numbers (n, width) of rows number first .. first + n - 1, in [0, 1)."""
    return np.random.Generator(generator(seed, first * width)).random((n, width))


def words(seed: int, first: int) -> list[int]:
    """State and increment of the generator in 64-bit halves, for compiled code."""
    state = generator(seed, first).state["state"]
    return [half for word in (state["state"], state["inc"]) for half in divmod(word, 1 << 64)]
