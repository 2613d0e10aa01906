"""The value that stands for every column of a mixture: a mean, a level or a direction."""

from __future__ import annotations

import numpy as np

from mixfold.core.capabilities import ColumnMeans, LevelProbabilities, MeanResultants
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.params import Params
from mixfold.core.rows import Array


def central_values(family: Family, params: Params, responsibilities: Array) -> Array:
    """The centres (n, d) of mixtures with responsibilities (n, K).

    They are means, where values are numbers; the most probable level, where they are codes of
    categories; the mean direction, where they are angles.
    """
    if isinstance(family, LevelProbabilities):
        p = family.level_probabilities(params)
        mixed = np.tensordot(responsibilities, p, axes=1)
        return np.asarray(mixed.argmax(axis=2), dtype=np.float64)
    if isinstance(family, MeanResultants):
        return np.asarray(np.angle(responsibilities @ family.resultants(params)))
    if isinstance(family, ColumnMeans):
        return _mixed(responsibilities, family.column_means(params))
    raise InvalidInputError(
        f"the means of {family!r} are not known: draw values, or give the family `column_means`"
    )


def _mixed(responsibilities: Array, means: Array) -> Array:
    """Means of mixtures; infinite if a component of theirs has an infinite mean."""
    infinite = np.isinf(means)
    found = responsibilities @ np.where(infinite, 0.0, means)
    if infinite.any():
        found[(responsibilities > 0.0).astype(np.float64) @ infinite > 0.0] = np.inf
    return np.asarray(found)
