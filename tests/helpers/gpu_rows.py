"""Rows and mixtures for a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold import Mixture

CENTRES = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def blobs(n: int = 1500) -> np.ndarray:
    return np.asarray(rng().normal(size=(n, 2)) + CENTRES[rng().integers(3, size=n)])


def mixture(device: str, **settings: Any) -> Mixture:
    given = {"n_components": 3, "random_state": 0, "engine": f"torch:{device}", **settings}
    return Mixture(**given)
