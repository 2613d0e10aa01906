"""Rows that are there as a whole."""

from __future__ import annotations

from typing import Any

from mixfold.core.source import Source


class Held(Source):
    """A table `x` of rows in memory, here or on a device."""

    x: Any

    @property
    def d(self) -> int:
        return int(self.x.shape[1])

    @property
    def length(self) -> int:
        return int(self.x.shape[0])

    @property
    def random_access(self) -> bool:
        return True
