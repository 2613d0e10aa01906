"""Sources whose rows are in memory."""

from __future__ import annotations

from typing import Any

from mixfold.core.fingerprint import FULL_BYTES, Fingerprint, rows_fingerprint
from mixfold.core.source import Source


class InMemorySource(Source):
    """A table `x` of rows in memory, here or on a device."""

    x: Any

    @property
    def d(self) -> int:
        return int(self.x.shape[1])

    @property
    def length(self) -> int:
        return int(self.x.shape[0])

    def fingerprint(self, limit: int = FULL_BYTES) -> Fingerprint:
        """The fingerprint of all rows and weights."""
        words = f"an array of {self.length:,} rows and {self.d:,} columns"
        return rows_fingerprint(words, self.blocks())

    @property
    def random_access(self) -> bool:
        return True
