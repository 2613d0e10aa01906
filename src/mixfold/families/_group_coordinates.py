"""The order of the unconstrained coordinates of a product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from mixfold.core.capabilities import UnconstrainedCoordinates
from mixfold.core.rows import Array
from mixfold.families.column_groups import Group


class GroupCoordinates(NamedTuple):
    """Locations of all columns, in their order, and then the other coordinates, group by group.

    `order` says where they are among the coordinates of the groups, one after the other, and
    `inverse` the opposite. `spans` are the parts of the groups among the latter.
    """

    order: NDArray[np.intp]
    inverse: NDArray[np.intp]
    spans: list[slice]

    @staticmethod
    def of(groups: Sequence[Group]) -> GroupCoordinates:
        """The order of coordinates of groups."""
        locations, others, spans, first = dict[int, int](), list[int](), list[slice](), 0
        for group in groups:
            family, width = cast(UnconstrainedCoordinates, group.family), len(group.places)
            example = group.family.example(1, width, np.random.default_rng(0))
            last = first + family.unconstrained(example).shape[1]
            locations |= dict(zip(group.places, range(first, last), strict=False))
            others += range(first + width, last)
            spans.append(slice(first, last))
            first = last
        order = np.array([*(locations[i] for i in sorted(locations)), *others], dtype=np.intp)
        return GroupCoordinates(order, np.argsort(order), spans)

    def join(self, parts: Sequence[Array]) -> Array:
        """The coordinates of the product, from those of the groups."""
        return np.concatenate(parts, axis=1).take(self.order, axis=1)

    def split(self, coordinates: Array) -> list[Array]:
        """The coordinates of the groups, from those of the product."""
        flat = coordinates.take(self.inverse, axis=1)
        return [flat[:, span] for span in self.spans]
