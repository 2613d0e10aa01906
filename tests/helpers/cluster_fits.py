"""Rows and mixtures for fits on a cluster."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
from dask import delayed

from mixfold import Mixture

CENTRES = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
NAMES = ["a", "b"]


def blobs(n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.asarray(rng.normal(size=(n, 2)) + CENTRES[rng.integers(3, size=n)])


X = blobs(6000)
FRAME = pd.DataFrame(X, columns=NAMES)


def mixture(learner: Any = "em", **settings: Any) -> Mixture:
    return Mixture(
        **{"n_components": 3, "learner": learner, "random_state": 0, "max_iter": 3, **settings}
    )


def chunked(make: Any) -> Any:
    """An array of six chunks, one of which is made by `make` whenever it is needed."""
    parts = [
        da.from_delayed(
            delayed(make if i == 3 else np.asarray, pure=False)(rows), rows.shape, rows.dtype
        )
        for i, rows in enumerate(np.array_split(X, 6))
    ]
    return da.concatenate(parts)
