"""Rows drawn from a fitted mixture, against which the rows of the data are compared."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mixfold.core.arrays import concatenated
from mixfold.core.errors import MixfoldError
from mixfold.core.limits import LARGEST
from mixfold.core.rows import Array
from mixfold.sources.array_source import ArraySource

LEAST_ROWS = 4_000
MOST_CELLS = 8_000_000


class Simulated(NamedTuple):
    """Rows (n, d) drawn from the model, their log density, and their responsibilities."""

    x: Array
    log_density: Array
    responsibilities: Array


def simulated(mixture: Any, like: Array, seed: int) -> Simulated | None:
    """Rows with missing cells where rows of `like` have them; None if they cannot be evaluated.

    There are at least as many as in `like`, so that chance in them matters less.
    """
    d, rng = like.shape[1], np.random.default_rng([seed, 2])
    n = max(1, min(2 * max(len(like), LEAST_ROWS), MOST_CELLS // d))
    try:
        x, _ = mixture.model_.sample(mixture.params_, n, rng)
        x = np.array(x, dtype=np.float64)
        x = x[(np.abs(x) < LARGEST).all(axis=1)]  # heavy tails reach beyond what can be squared
        holes = np.isnan(like)
        if holes.any():
            x[holes[rng.integers(len(like), size=len(x))]] = np.nan
        names = getattr(mixture, "feature_names_in_", None)
        rows = ArraySource(x, None, None if names is None else [str(name) for name in names])
        parts = list(mixture.iter_posteriors(rows))
    except MixfoldError:
        return None
    return Simulated(x, concatenated([p[0] for p in parts]), concatenated([p[1] for p in parts]))
