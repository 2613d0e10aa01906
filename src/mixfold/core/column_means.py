"""Families whose columns have means."""

from __future__ import annotations

from typing import Any, cast

from mixfold.core.family import Family
from mixfold.core.rows import Array


class MeansAreAttributes:
    """What families have whose attribute `means` holds E[x] of every component."""

    def column_means(self, params: Any) -> Array:
        """E[x], (K, d); infinite where a distribution has none."""
        return cast(Family, self).attributes(params)["means"]
