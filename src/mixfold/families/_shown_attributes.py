"""Fitted attributes of any family, with derivatives by central differences."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixfold.core.rows import Array
from mixfold.core.statistics import lower_triangle
from mixfold.families._shown_parameters import Scale, ShownParameter, grid

STEP = 1e-5  # of central differences, in units of the coordinates' natural lengths
LOGITS = ("probabilities", "inflation")
LOGS = ("rates", "shapes", "scales", "concentrations", "alphas", "betas", "sizes", "degrees")
VARIANCES = ("covariances", "scale_matrices", "noise_variance")

At = Callable[[Array], Any]
"""Parameters at changes (K, q) of the local coordinates, in units of their natural lengths."""

Attributes = dict[str, Callable[[Any], Array]]
"""What users see of parameters, by name."""


def slopes(at: At, k: int, q: int, of: Callable[[Any], Array]) -> Array:
    """Derivatives (K, m, q) of arrays (K, ...) in local coordinates.

    A component's entries depend on its own coordinates alone, so that one coordinate of all
    components is moved at once.
    """
    found = []
    for j in range(q):
        ends = []
        for sign in (1.0, -1.0):
            change = np.zeros((k, q))
            change[:, j] = sign * STEP
            ends.append(of(at(change)).reshape(k, -1))
        with np.errstate(invalid="ignore"):  # some distributions have no finite mean
            found.append((ends[0] - ends[1]) / (2.0 * STEP))
    return np.stack(found, axis=2)


def attributes_of(family: Any, params: Any) -> Attributes:
    """The attributes of a family that tell all, as functions of its parameters."""
    known = family.attributes(params)
    names = [n for n in known if n != "modes" and not (n == "means" and LOGITS[0] in known)]
    return {name: partial(_attribute, family, name) for name in names}


def _attribute(family: Any, name: str, params: Any) -> Array:
    return np.asarray(family.attributes(params)[name])


def shown_attributes(
    attributes: Attributes,
    positive: bool,
    params: Any,
    at: At,
    q: int,
    limited: NDArray[np.bool_],
) -> list[ShownParameter]:
    """The attributes that depend on coordinates.

    `positive` says whether values of rows are, and `limited` (K, d) are components at a limit.
    """
    found = []
    for name, of in attributes.items():
        if slopes(at, len(limited), q, of).any():
            values = of(params)
            above = positive and bool((values > 0.0).all())
            found += _shown(name, values, above, _Slopes(at, q, of), limited)
    return found


class _Slopes:
    """Derivatives of some entries of an attribute, computed when they are needed."""

    def __init__(self, at: At, q: int, of: Callable[[Any], Array]) -> None:
        self.at, self.q, self.of = at, q, of

    def entries(self, k: int, chosen: Array | slice) -> Array:
        found = slopes(self.at, k, self.q, self.of)[:, chosen]
        return np.asarray(found.reshape(-1, self.q))


def _shown(
    name: str, values: Array, positive: bool, own: _Slopes, limited: NDArray[np.bool_]
) -> list[ShownParameter]:
    """The parameters (K,), (K, d), or of symmetric matrices (K, d, d)."""
    k = len(values)
    if values.ndim < 3:
        where = grid(*values.shape)
        low = limited.ravel() if values.ndim == 2 else np.asarray(limited.any(axis=1))
        scale = "log" if name in VARIANCES else _scale(name, positive)
        return [_parameter(name, values.reshape(k, -1), where[:, 1:], scale, own, slice(None), low)]
    i, j = lower_triangle(values.shape[1])
    found = []
    for chosen, scale in ((i == j, "log"), (i != j, "identity")):
        places = np.column_stack([i, j])[chosen]
        if len(places):
            flat = places[:, 0] * values.shape[1] + places[:, 1]
            low = limited[:, places].any(axis=2).ravel()
            entries = values.reshape(k, -1)[:, flat]
            columns = np.tile(places, (k, 1))
            found.append(_parameter(name, entries, columns, scale, own, flat, low))
    return found


def _parameter(
    name: str,
    values: Array,
    columns: NDArray[np.intp],
    scale: Any,
    own: _Slopes,
    chosen: Any,
    limited: NDArray[np.bool_],
) -> ShownParameter:
    k, m = values.shape
    return ShownParameter(
        name,
        values.ravel(),
        np.repeat(np.arange(k), m),
        columns,
        np.full(k * m, -1),
        scale,
        lambda: own.entries(k, chosen),
        limited,
    )


def _scale(name: str, positive: bool) -> Scale:
    if name in LOGITS:
        return "logit"
    return "log" if name in LOGS or (name == "means" and positive) else "identity"
