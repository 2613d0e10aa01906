"""Acceleration of EM: extrapolated points in unconstrained coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import ref

import numpy as np

from mixfold.core.backend import Model
from mixfold.core.errors import InvalidInputError
from mixfold.core.params import Params
from mixfold.core.rows import Array

MOST_PAIRS = 6
MOST_NUMBERS = 2**22  # numbers in all points that are stored
RIDGE = 1e-10

_known: dict[int, tuple[ref[Params], Model, Array]] = {}  # by the identity of parameters


def _coordinates(model: Model, params: Params) -> Array:
    """Unconstrained coordinates, computed once as long as the parameters exist."""
    key = id(params)
    known = _known.get(key)
    if known is not None and known[0]() is params and known[1] is model:
        return known[2]
    found = model.unconstrained(params)
    forget = _known.pop  # the module may be gone before the parameters are
    _known[key] = ref(params, lambda _: forget(key, None)), model, found
    return found


def extrapolate(
    model: Model, zero: Params, one: Params, two: Params, reach: float
) -> tuple[Params | None, float]:
    """SQUAREM's third step length, up to `reach`, in unconstrained coordinates.

    Returns the point, or None where it would not help, and the step length.
    """
    scales = model.coordinate_scales(zero)
    start = _coordinates(model, zero)
    r = _coordinates(model, one) - start
    v = _coordinates(model, two) - start - 2.0 * r
    lengths = np.linalg.norm(r / scales), np.linalg.norm(v / scales)
    if not (np.isfinite(lengths).all() and lengths[0] > lengths[1] > 0):
        return None, reach
    alpha = min(float(lengths[0] / lengths[1]), reach)
    return _constrained(model, start + 2.0 * alpha * r + alpha**2 * v, zero), alpha


def pairs_to_keep(model: Model, params: Params) -> int:
    """How many points, each with its EM step, Anderson acceleration may store."""
    found = min(MOST_PAIRS, MOST_NUMBERS // (2 * _coordinates(model, params).size))
    return found if found >= 2 else 0


def anderson(model: Model, trail: Sequence[Params]) -> Params | None:
    """The combination of EM steps whose residual is least, where steps are linear in their start.

    `trail` has points and, after each, its EM step. Returns None if no combination helps.
    """
    scales = model.coordinate_scales(trail[0])
    flat = np.array([(_coordinates(model, one) / scales).ravel() for one in trail])
    after = flat[1::2]
    residual = after - flat[::2]
    if not np.isfinite(flat).all():
        return None
    change, moved = np.diff(residual, axis=0), np.diff(after, axis=0)
    square = change @ change.T
    size = float(np.trace(square))
    if not size > 0.0:
        return None
    coefficients = np.linalg.solve(
        square + RIDGE * size * np.eye(len(square)), change @ residual[-1]
    )
    return _constrained(
        model, (after[-1] - coefficients @ moved).reshape(scales.shape) * scales, trail[-1]
    )


def _constrained(model: Model, coordinates: Array, like: Params) -> Params | None:
    """Parameters at the coordinates, or None if they are not valid."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        try:
            found: Params = model.constrained(coordinates, like)
            model.check_params(found)
        except (InvalidInputError, np.linalg.LinAlgError):
            return None
    return found
