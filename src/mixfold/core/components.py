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
