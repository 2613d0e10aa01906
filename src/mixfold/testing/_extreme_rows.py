"""Rows with the largest and smallest values that are accepted, and what must hold after them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.core.backend import Backend
from mixfold.core.learner import Learner
from mixfold.core.limits import LARGEST
from mixfold.core.rows import Rows
from mixfold.core.value import flatten
from mixfold.models.mixture_model import MixtureModel
from mixfold.testing._estimates import learned


def with_extremes(model: MixtureModel, rows: Rows, rng: np.random.Generator) -> Rows:
    """Rows of which some, the first and the last among them, hold extreme values."""
    largest = min(0.99 * LARGEST, float(np.finfo(rows.x.dtype).max))
    sizes = np.array([1e12, 1e20, 1e36, largest, 1e-30, 1e-40, 0.0])
    chosen = np.append([0, len(rows) - 1], rng.integers(len(rows), size=4))
    columns = rng.integers(model.d, size=len(chosen))
    x = rows.x.copy()
    x[chosen, columns] = rng.choice(sizes, len(chosen)) * rng.choice([-1.0, 1.0], len(chosen))
    x[chosen[-1]] = largest
    return Rows(model.family.into_support(x), rows.weight)


def assert_valid(backend: Backend, learner: Learner, state: Any, ordinary: Rows) -> None:
    """Everything learned is finite, and ordinary rows have densities and responsibilities."""
    bound, params = learned(backend, learner, state)
    arrays: dict[str, np.ndarray] = {}
    flatten([state, params], "learned", arrays)
    for name, array in arrays.items():
        if name.endswith(".x") and np.isnan(ordinary.x).any():
            continue  # rows that a learner keeps may have missing cells
        assert np.isfinite(array).all(), f"{name} is not finite after extreme rows: {array}"
    assert (params.weights >= 0).all(), f"weights are negative: {params.weights}"
    np.testing.assert_allclose(params.weights.sum(), 1.0)
    log_density, responsibilities = bound.posterior(params, ordinary)
    assert responsibilities is not None
    assert np.isfinite(log_density).all(), "after extreme rows, ordinary rows have no log-density"
    np.testing.assert_allclose(responsibilities.sum(axis=1), 1.0)
