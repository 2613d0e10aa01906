"""What the columns of a formula hold: numbers, or levels by their codes."""

from __future__ import annotations

from functools import cached_property
from math import isfinite

import numpy as np

from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.core.value import value

Level = str | bool | int | float
LARGEST_WHOLE = 2**64  # of the integers that files hold


@value
class FormulaLevelTable:
    """The values that the codes 0, 1, ... of a column stand for, in the order of their codes.

    The levels of a column of numbers are named alike however a file stores them: 1, not 1.0.
    """

    values: list[Level]
    numeric: bool

    def __post_init__(self) -> None:
        if not isinstance(self.values, list) or not isinstance(self.numeric, bool):
            raise InvalidInputError("the levels of a formula must be a list")
        text = [isinstance(level, str) for level in self.values]
        if any(text) and (self.numeric or not all(text)):
            raise InvalidInputError("levels are text and numbers: they must be all text or none")
        for level in self.values:
            if not isinstance(level, str) and not _is_number(level):
                raise InvalidInputError(
                    f"a level is {level!r}: levels are text, yes and no, or finite numbers"
                )
        if len(set(self.values)) != len(self.values):
            raise InvalidInputError("a level appears twice: each one must have one code")

    @cached_property
    def _order(self) -> list[int]:
        """Codes in the natural order of levels: the first is the reference."""
        return sorted(range(len(self.values)), key=self.values.__getitem__)

    @cached_property
    def _ranks(self) -> np.ndarray:
        return np.argsort(np.asarray(self._order, dtype=np.intp))

    @cached_property
    def names(self) -> list[str]:
        """Names of levels in their natural order."""
        levels = [self.values[code] for code in self._order]
        if not self.numeric:
            return [str(level) for level in levels]
        if all(float(level).is_integer() for level in levels):
            return [str(int(level)) for level in levels]
        return [str(float(level)) for level in levels]

    @cached_property
    def longest(self) -> int:
        """Characters of the longest name."""
        return max(map(len, self.names), default=0)

    def ranks(self, codes: Array) -> np.ndarray:
        """Places of levels in their natural order, by their codes."""
        return np.asarray(self._ranks[codes.astype(np.intp)])

    def numbers(self, codes: Array) -> Array:
        """The numbers that codes stand for."""
        return np.asarray(self.values, dtype=np.float64)[codes.astype(np.intp)]


def _is_number(level: object) -> bool:
    if isinstance(level, int):  # yes and no too
        return abs(level) <= LARGEST_WHOLE
    return isinstance(level, float) and isfinite(level)
