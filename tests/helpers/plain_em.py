"""EM in a few lines of NumPy, with densities and M-steps that a test gives: an oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Density = Callable[[np.ndarray], np.ndarray]
Maximizer = Callable[[np.ndarray], np.ndarray]


def plain_em(
    log_density: Density, maximize: Maximizer, weights: Any, params: Any, passes: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Weights and parameters after some passes, and the mean log-likelihood of these.

    `log_density` maps parameters to log p(x|k), (n, K), and `maximize` responsibilities (n, K) to
    parameters.
    """
    w, theta = np.asarray(weights, dtype=float), np.asarray(params, dtype=float)
    for _ in range(passes):
        joint = w * np.exp(log_density(theta))
        r = joint / joint.sum(axis=1, keepdims=True)
        w, theta = r.mean(axis=0), maximize(r)
    likelihood = np.log((w * np.exp(log_density(theta))).sum(axis=1)).mean()
    return w, theta, float(likelihood)


def means_of(x: np.ndarray) -> Maximizer:
    """The M-step in which parameters are the weighted means of rows."""
    return lambda r: np.asarray((r.T @ x) / r.sum(axis=0)[:, None])
