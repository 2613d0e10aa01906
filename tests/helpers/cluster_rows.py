"""Rows in clusters, and how far means are from their centres."""

from __future__ import annotations

import numpy as np

CENTERS = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])


def clusters(n: int = 300, spread: float = 1.0, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.asarray(CENTERS[rng.integers(3, size=n)] + spread * rng.normal(size=(n, 2)))


def matched(means: np.ndarray, centers: np.ndarray = CENTERS) -> float:
    """The largest distance from a centre to the nearest mean."""
    return float(np.linalg.norm(means[None] - centers[:, None], axis=2).min(axis=1).max())
