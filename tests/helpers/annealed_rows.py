"""Rows and beginnings for annealed gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold import AnnealedSGD, Gaussian
from mixfold.backends.threads import Threads
from mixfold.core.rows import Array
from mixfold.models.mixture_model import MixtureModel, MixtureParams


def pictures(n: int, d: int = 64, seed: int = 0) -> Array:
    """Rows in [0, 1] around nine centres."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(9).random((9, d))
    return np.clip(centres[rng.integers(9, size=n)] + 0.05 * rng.normal(size=(n, d)), 0.0, 1.0)


def begun(learner: AnnealedSGD, k: int, d: int, family: Gaussian) -> tuple[MixtureModel, Any]:
    model = MixtureModel(family, k, d)
    rng = np.random.default_rng(1)
    components = model.family.example(k, d, rng)
    params = MixtureParams(rng.dirichlet(np.ones(k)), components)
    return model, learner.init(Threads(model, 1), params)
