"""Rows, fits and starts for the drop-in and for scikit-learn."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

COVARIANCES = ["full", "tied", "diag", "spherical"]
RNG = np.random.default_rng(0)
MIX = np.array([[1.0, 0.4, 0.0], [0.0, 0.7, 0.2], [0.3, 0.0, 1.3]])
X = np.vstack([RNG.normal(size=(70, 3)) @ MIX + shift for shift in (0.0, 3.0, [6.0, -3.0, 1.0])])


def fitted(cls: Any, x: Any = X, **settings: Any) -> Any:
    model = cls(**{"n_components": 3, "random_state": 0, **settings})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(x)


def given(covariance: str) -> dict[str, Any]:
    spread = {
        "full": np.stack([np.eye(3) * s for s in (0.5, 1.0, 2.0)]),
        "tied": np.eye(3) + 0.2,
        "diag": np.arange(1.0, 10.0).reshape(3, 3) / 3.0,
        "spherical": np.array([0.5, 1.0, 2.0]),
    }
    return {
        "weights_init": [0.2, 0.3, 0.5],
        "means_init": X[[0, 80, 150]],
        "precisions_init": spread[covariance],
    }
