"""Poisson(1) weights of rows, which depend on the seed and the number of a row alone.

References
----------
Chamandy et al. (2012), Estimating uncertainty for massive data streams: Poisson weights.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from mixfold.core.noise import generator
from mixfold.core.rows import Array

MOST = 12  # P(more) is 2e-11, less than one of 2^32
HALF = 16  # bits: the upper half of a number decides nearly always
UNDECIDED = 255


@cache
def _thresholds() -> NDArray[np.uint32]:
    """The 32-bit numbers from which on a weight is at least 1, 2, ..."""
    from scipy.stats import poisson

    reached = poisson.cdf(np.arange(MOST), 1.0) * 2.0**32
    return np.asarray(np.rint(reached), dtype=np.uint32)


@cache
def _by_upper_half() -> NDArray[np.uint8]:
    """The weights of all numbers with the same upper half, where they have the same."""
    lowest = np.arange(2**HALF, dtype=np.uint32) << np.uint32(HALF)
    ends = [
        np.searchsorted(_thresholds(), lowest + last, side="right") for last in (0, 2**HALF - 1)
    ]
    return np.where(ends[0] == ends[1], ends[0], UNDECIDED).astype(np.uint8)


def poisson_weights(seed: int, first: int, n: int) -> Array:
    """Poisson(1) weights of rows number first .. first + n - 1, whatever blocks they come in.

    A 64-bit word of the generator has the 32-bit numbers of two rows.
    """
    skipped = first % 2
    words = generator(seed, first // 2).random_raw((skipped + n + 1) // 2)
    numbers = words.astype("<u8", copy=False).view("<u4")[skipped : skipped + n]
    found = _by_upper_half()[numbers >> np.uint32(HALF)]
    unclear = np.flatnonzero(found == UNDECIDED)
    found[unclear] = np.searchsorted(_thresholds(), numbers[unclear], side="right")
    return np.asarray(found, dtype=np.float64)
