"""Free coordinates of rows whose values depend on one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mixfold.core.rows import Array
from mixfold.core.support import Support


class Chart(NamedTuple):
    """Coordinates (n, m) that determine rows (n, d), in which laws integrate a density.

    `to_rows` also returns the volume (n,) in which the density is stated, per unit of coordinates.
    """

    supports: tuple[Support, ...]
    from_rows: Callable[[Array], Array]
    to_rows: Callable[[Array], tuple[Array, Array]]
