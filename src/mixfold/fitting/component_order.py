"""The order of components, which is a convention: the likelihood does not depend on it.

By increasing means, column after column; then by falling weight, then by the other parameters.
Numbers that differ by no more than rounding can explain count as equal, so that the order is the
same on any processor.
"""

from __future__ import annotations

from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import numpy as np

from mixfold.core.capabilities import UnconstrainedCoordinates, has_coordinates
from mixfold.core.components import take_components
from mixfold.core.ranking import levels
from mixfold.core.rows import Array
from mixfold.core.statistics import Statistics
from mixfold.core.value import field_names, is_value
from mixfold.models.bayesian_mixture import MixturePosterior
from mixfold.models.mixture_model import MixtureModel, MixtureParams

T = TypeVar("T")

TOLERANCE = 1e-8  # relative tolerance


@runtime_checkable
class HasComponents(Protocol):
    """A value that says itself what it is after its components were put into another order."""

    def reordered(self, order: np.ndarray) -> Self:
        """The value with the components in this order."""
        ...


def component_order(model: MixtureModel, params: MixtureParams) -> np.ndarray:
    """The indices that sort the components."""
    family = model.family
    if isinstance(family, UnconstrainedCoordinates) and has_coordinates(family):
        coordinates = family.unconstrained(params.components)
        scales = family.coordinate_scales(params.components)
    else:
        coordinates = family.sort_keys(params.components)
        scales = np.ones_like(coordinates)
    size = scales.max(axis=0) + np.abs(coordinates).max(axis=0)
    falling = -np.log(params.weights)[:, None]
    d = model.d
    keys = np.hstack([coordinates[:, :d], falling, coordinates[:, d:]])
    size = np.hstack([size[:d], [1.0 + np.abs(falling).max()], size[d:]])
    return _sorted(keys, TOLERANCE * size, np.arange(model.k))


def _sorted(keys: Array, tolerance: Array, members: np.ndarray) -> np.ndarray:
    """Sort members by the first key, and those that are equal in it by the next."""
    spread = np.ptp(keys[members], axis=0) > tolerance
    for column in np.flatnonzero(spread):
        level = levels(keys[members, column], tolerance[column])
        if level.max() > 0:
            parts = (members[level == i] for i in range(level.max() + 1))
            return np.concatenate([_sorted(keys, tolerance, part) for part in parts])
    return members


def reorder(thing: T, order: np.ndarray) -> T:
    """A tree of values with the components of every mixture in it in another order.

    Parameters, statistics, posteriors and values that say how are reordered; other fields are kept.
    """
    found: Any = thing
    if isinstance(thing, list):
        found = [reorder(item, order) for item in thing]
    elif isinstance(thing, MixtureParams | Statistics | MixturePosterior):
        found = take_components(thing, order, len(order))
    elif isinstance(thing, HasComponents):
        found = thing.reordered(order)
    elif is_value(thing):
        parts = {name: reorder(getattr(thing, name), order) for name in field_names(thing)}
        found = type(thing)(**parts)
    return found  # type: ignore[no-any-return]
