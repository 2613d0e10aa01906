"""Single rows compared with the support of a family, without the overhead of arrays of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mixfold.core.family import Family
from mixfold.core.independent_columns import separable
from mixfold.core.limits import LARGEST
from mixfold.core.rows import Array
from mixfold.families.product import Product

FEW = 32  # columns, for which a loop is faster than an array
_MOST = float(np.nextafter(LARGEST, 0.0))  # values are below the limit


class Interval(NamedTuple):
    """Values of a column that are inside the support: ends are included."""

    low: float
    high: float
    whole: bool


class RowBounds:
    """Tells whether all cells of a row are there, in range and inside the support of a family."""

    def __init__(self, family: Family, d: int) -> None:
        self._family = family
        self._has_support = has_support(family, d)
        self._intervals = intervals_of(family, d) if d <= FEW else None

    def contain(self, x: Array) -> bool:
        """Whether the row is inside; false for a NaN."""
        if self._intervals is None:
            return self.contain_all(x[None])
        if not self._has_support:
            for number in x.tolist():  # noqa: SIM110 - which takes twice as long
                if not -LARGEST < number < LARGEST:
                    return False
            return True
        for number, (low, high, whole) in zip(x.tolist(), self._intervals, strict=False):
            if not low <= number <= high or (whole and number % 1.0):
                return False
        return True

    def contain_all(self, rows: Array) -> bool:
        """Whether all rows (n, d) are inside; false for a NaN."""
        if not np.abs(rows).max(initial=0.0) < LARGEST:  # which is false for NaN
            return False
        outside = self._family.out_of_support(rows) if self._has_support else None
        return outside is None or not outside.any()


def has_support(family: Family, d: int) -> bool:
    """Whether some values are outside the support of a family."""
    return family.out_of_support(np.empty((0, d))) is not None


def intervals_of(family: Family, d: int) -> list[Interval] | None:
    """The interval of every column; None if the support depends on several columns at once."""
    found = [Interval(-_MOST, _MOST, False)] * d
    for part, places in _parts(family, d):
        if not has_support(part, len(places)):
            continue
        if separable(part) is None:
            return None
        for place, interval in zip(places, _independent(part, len(places)), strict=True):
            found[place] = interval
    return found


def _parts(family: Family, d: int) -> Iterator[tuple[Family, list[int]]]:
    if not isinstance(family, Product):
        yield family, list(range(d))
        return
    for group in family.groups:
        yield group.family, list(group.places)


def _independent(family: Family, d: int) -> Iterator[Interval]:
    """The intervals of independent columns, without those of their ends that are outside."""
    supports = family.supports(d)
    low = np.clip([one.low for one in supports], -_MOST, _MOST)
    high = np.clip([one.high for one in supports], -_MOST, _MOST)
    found = family.out_of_support(np.stack([low, high]))
    assert found is not None
    low = np.where(found[0], np.nextafter(low, np.inf), low)
    high = np.where(found[1], np.nextafter(high, -np.inf), high)
    for least, most, support in zip(low.tolist(), high.tolist(), supports, strict=True):
        yield Interval(least, most, support.whole)
