"""The columns of a fitted mixture: their names, what they hold, and their values as texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mixfold.core.capabilities import MeanResultants
from mixfold.core.family import Family
from mixfold.report import _texts
from mixfold.sources.dates import from_days, temporal_type

Kind = Literal["number", "count", "level", "angle", "date"]


@dataclass(frozen=True)
class Column:
    """A column; `levels` are the names of the codes 0, 1, ... of a column of levels."""

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()
    date_type: str = ""

    @property
    def ordered(self) -> bool:
        """Whether values can be drawn along an axis."""
        return self.kind != "level"

    def text(self, value: float, scale: float | None = None) -> str:
        """A value, or a mean of values, as a text."""
        if not np.isfinite(value):
            return "missing"
        if self.kind == "level":
            code = round(value)
            return f"“{self.levels[code]}”" if 0 <= code < len(self.levels) else "another level"
        if self.kind == "date":
            found = from_days(np.array([value]), temporal_type(self.date_type))
            return str(found[0].as_py())
        return _texts.number(value, scale)

    def difference(self, by: float) -> str:
        """A difference of two values as a text."""
        if self.kind == "date":
            return f"{_texts.number(by)} days"
        return _texts.number(by)


def columns_of(mixture: Any) -> list[Column]:
    """The columns of a fitted mixture, in their order."""
    family, d = mixture.model_.family.for_complete_rows(), mixture.model_.d
    names = getattr(mixture, "feature_names_in_", None)
    titles = [f"x{j}" for j in range(d)] if names is None else [str(name) for name in names]
    dates = _dates_of(mixture)
    levels = _levels_of(family)
    find = _kind_in(family, d)
    found = []
    for j, name in enumerate(titles):
        kind, own = find(j)
        if name in dates:
            kind = "date"
        found.append(Column(name, kind, levels.get(j, own), dates.get(name, "")))
    return found


def _dates_of(mixture: Any) -> dict[str, str]:
    """The types of columns of dates, as the mixture remembers them from the table of the fit."""
    notes = getattr(mixture, "_notes", None)
    return {} if notes is None else notes.dates


def _levels_of(family: Family) -> dict[int, tuple[str, ...]]:
    """The names of levels by the number of their column, where a product knows them."""
    found = {}
    for factor in getattr(family, "factors", ()):
        if factor.levels is not None and factor.positions is not None:
            other = ("any other",) if factor.other else ()
            found[factor.positions[0]] = (*map(str, factor.levels), *other)
    return found


def _kind_in(family: Family, d: int) -> Callable[[int], tuple[Kind, tuple[str, ...]]]:
    supports = family.supports(d)

    def find(j: int) -> tuple[Kind, tuple[str, ...]]:
        own, support = family.at_column(j), supports[j]
        if own.has_categories or (support.whole and (support.low, support.high) == (0.0, 1.0)):
            return "level", tuple(str(code) for code in range(int(support.high) + 1))
        if isinstance(own, MeanResultants):
            return "angle", ()
        return ("count" if support.whole and support.high > 1.0 else "number"), ()

    return find


def is_picture(columns: list[Column], named: bool) -> int:
    """The side of the square picture that a row is, or 0: many columns of numbers without names."""
    side = round(len(columns) ** 0.5)
    numbers = all(column.kind in ("number", "count", "level") for column in columns)
    return side if side >= 8 and side * side == len(columns) and numbers and not named else 0
