"""Changes of the family while a stream is learned: missing cells, and new levels of categories.

Rows are divided where the family changes, so that results do not depend on the blocks in which they
arrive.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mixfold.core.arrays import on_host
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.family_change import FamilyChange
from mixfold.core.missing_cells import has_missing
from mixfold.core.rows import Rows
from mixfold.estimators._cells import Cells
from mixfold.estimators._column_facts import MOST_LEVELS, plain_number
from mixfold.families.bernoulli import Bernoulli
from mixfold.families.factor import Factor, Level
from mixfold.families.incomplete_rows import ForMissingCells
from mixfold.families.new_levels import NewLevels
from mixfold.families.product import Product

Given = Mapping[Any, Family]
"""Families of columns that the user has given."""


class ChangingFamily:
    """The family of the rows of a stream so far; `given` are families that the user has chosen."""

    def __init__(self, family: Family, cells: Cells, given: Given) -> None:
        self.family, self._cells, self._given = family, cells, given

    def divided(self, rows: Rows) -> Iterator[tuple[list[FamilyChange], Rows]]:
        """The rows in parts, each after the changes that it needs."""
        changes = self._changes(rows)
        if not changes:
            yield [], rows
            return
        starts = sorted({0, *changes})
        for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True):
            found = changes.get(start, [])
            for change in found:
                self.family = change.family(self.family)
            yield found, rows.cut(start, stop)

    def _changes(self, rows: Rows) -> dict[int, list[FamilyChange]]:
        """The changes by the number of the first row that needs them."""
        found: dict[int, list[FamilyChange]] = defaultdict(list)
        if self._cells.missing and not self.family.accepts_missing and has_missing(rows.x):
            missing = on_host((rows.x != rows.x).any(axis=1))  # also of tensors
            found[int(missing.argmax())].append(ForMissingCells())
        if self._cells.grows:
            for row, levels in self._new_levels(rows).items():
                found[row].append(NewLevels(levels))
        return found

    def _new_levels(self, rows: Rows) -> dict[int, dict[Any, tuple[Level, ...]]]:
        """New levels by the number of the row that has them first, and by column.

        Codes are assigned in the order of the rows, so that the first row with a code has no
        larger one before it. Arrays hold codes without values, and bring no levels.
        """
        found: dict[int, dict[Any, tuple[Level, ...]]] = defaultdict(dict)
        assert isinstance(self.family, Product)
        for factor in self.family.factors:
            if factor.levels is None or factor.positions is None:
                continue
            column = on_host(rows.x[:, factor.positions[0]])
            codes = min(_number_of_codes(column), len(self._values(factor)))
            for code in range(len(factor.levels), codes):
                level = self._level(factor, code)
                found[int((column >= code).argmax())][factor.label] = (level,)
        return found

    def _values(self, factor: Factor) -> list[Level]:
        """The values of the codes of a column."""
        assert self._cells.codes is not None
        return self._cells.codes.values[str(factor.label)]

    def _level(self, factor: Factor, code: int) -> Level:
        """The value of a code, if it can become a level."""
        levels = self._values(factor)
        check_new_level(factor.label, levels[code], levels[:code], self._given.get(factor.label))
        level: Level = plain_number(levels[code])
        return level


def check_new_level(label: Any, level: Level, known: list[Level], given: Family | None) -> None:
    """Refuse a value that cannot become a level of a column."""
    if known and _kind(level) != _kind(known[0]):
        raise InvalidInputError(
            f"column {label!r} has {level!r}, which is {_kind(level)}, but the values before, such "
            f"as {known[0]!r}, are {_kind(known[0])}: store the column the same way in all blocks"
        )
    if len(known) >= MOST_LEVELS:
        raise InvalidInputError(
            f"column {label!r} has {level!r} and {MOST_LEVELS:,} other values, too many for "
            "categories: leave it out with columns=[...] (--columns), or if they are numbers give "
            f"it a family with overrides={{{label!r}: ...}}"
        )
    if isinstance(given, Bernoulli) and len(known) >= 2:
        raise InvalidInputError(
            f"column {label!r} has {level!r} after {known[0]!r} and {known[1]!r}, and Bernoulli() "
            "has two levels: use Categorical()"
        )


def _kind(level: Level) -> str:
    if isinstance(level, bool):
        return "yes or no"
    return "text" if isinstance(level, str) else "a number"


def _number_of_codes(column: np.ndarray) -> int:
    """One more than the largest code; 0 if all cells are missing."""
    there = column[~np.isnan(column)]
    return int(there.max()) + 1 if len(there) else 0
