"""The support of a column."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from mixfold.core.rows import Array


class Support(NamedTuple):
    """An interval from `low` to `high`, ends included; with `whole`, its whole numbers only.

    Examples
    --------
    >>> Support(low=0.0).message
    'values must be >= 0'
    >>> Support(low=0.0, high=1.0, whole=True).message
    'values must be whole numbers from 0 to 1'
    """

    low: float = -inf
    high: float = inf
    whole: bool = False

    @property
    def message(self) -> str:
        """Which values are allowed, for error messages."""
        if self == Support():
            return "values must be finite"
        kind = "whole numbers " if self.whole else ""
        if self.high == inf:
            return f"values must be {kind}>= {self.low:g}"
        if self.low == -inf:
            return f"values must be {kind}<= {self.high:g}"
        return f"values must be {kind}from {self.low:g} to {self.high:g}"

    def excludes(self, x: Array) -> np.ndarray | None:
        """Where finite numbers of an array or tensor are outside; None if none can be."""
        if self == Support():
            return None
        outside: np.ndarray = (x < self.low) | (x > self.high)
        return outside | (x != x.round()) if self.whole else outside
