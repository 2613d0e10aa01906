"""Some of the components of parameters and statistics, or all in another order."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from mixfold.core.arrays import is_array
from mixfold.core.value import field_names, is_value

T = TypeVar("T")


def take_components(thing: T, chosen: np.ndarray, k: int) -> T:
    """The chosen of K components: every array that has one entry per component is indexed.

    Arrays that components share, such as a tied covariance, have one entry, and are kept.
    """
    found: Any = thing
    if is_array(thing):
        array: Any = thing
        found = np.ascontiguousarray(array[chosen]) if len(array) == k else array
    elif is_value(thing):
        parts = {n: take_components(getattr(thing, n), chosen, k) for n in field_names(thing)}
        found = type(thing)(**parts)
    elif isinstance(thing, tuple):
        found = tuple(take_components(item, chosen, k) for item in thing)
    return found  # type: ignore[no-any-return]


def put_components(thing: T, other: T, chosen: np.ndarray) -> T:
    """The parameters with the chosen components replaced by those of others; `chosen` is (K,)."""
    found: Any = thing
    if is_array(thing):
        array, given = np.asarray(thing), np.asarray(other)
        wide = chosen.reshape(-1, *(1,) * (array.ndim - 1))
        found = np.where(wide, given, array) if len(array) == len(chosen) else array
    elif is_value(thing):
        pairs = {n: (getattr(thing, n), getattr(other, n)) for n in field_names(thing)}
        found = type(thing)(**{n: put_components(*pair, chosen) for n, pair in pairs.items()})
    elif isinstance(thing, tuple) and isinstance(other, tuple):
        pairs_of = zip(thing, other, strict=True)
        found = tuple(put_components(one, two, chosen) for one, two in pairs_of)
    return found  # type: ignore[no-any-return]
