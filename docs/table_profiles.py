"""What the components of a fitted table are like: means and shares by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

MOST_LINES = 27  # of a picture; tables of many categories show fewer levels of each
MOST_LEVELS = 3  # of a category with more than two
MONTH = 31.0  # days
SAME = 0.03  # standard deviations by which lines that say the same may differ


@dataclass(frozen=True, eq=False)
class Line:
    """A column or a level of it: what is written for all rows, then for components, and colours.

    `deviations` are differences of components from all rows in standard deviations, and `spread`
    is the mean of their squares over the rows.
    """

    label: str
    texts: tuple[str, ...]
    deviations: np.ndarray
    spread: float

    def repeats(self, other: Line) -> bool:
        """Whether components differ in the same way, or in the opposite one."""
        difference = np.abs(self.deviations) - np.abs(other.deviations)
        return bool(np.abs(np.nan_to_num(difference)).max() < SAME)


def profile(
    table: Any, choices: Sequence[Any], responsibilities: np.ndarray, labels: Mapping[str, str]
) -> list[Line]:
    """Lines of all columns, with as many levels of categories as a picture has room for."""
    levels = {choice.column: choice.levels for choice in choices if choice.levels is not None}
    columns = [
        _lines(table[name], levels.get(name), responsibilities, labels.get(name, str(name)))
        for name in table.columns
    ]
    for most in range(MOST_LEVELS, 0, -1):
        found: list[Line] = []
        for lines in columns:
            found += _most_different(lines, most, found)
        if len(found) <= MOST_LINES:
            break
    return found


def order_by_likeness(lines: Sequence[Line]) -> np.ndarray:
    """Components along the direction in which they differ most, so that neighbours are alike."""
    deviations = np.stack([line.deviations for line in lines])
    complete = deviations[~np.isnan(deviations).any(axis=1)]
    deviations = complete if len(complete) else np.nan_to_num(deviations)
    _, _, rotations = np.linalg.svd(deviations - deviations.mean(axis=1, keepdims=True))
    first = rotations[0]
    upwards = float(first @ deviations[0]) >= 0.0  # the first column grows from left to right
    return np.argsort(first if upwards else -first, kind="stable")


def _most_different(lines: list[Line], most: int, before: list[Line]) -> list[Line]:
    """The lines in which components differ most, in their own order.

    A level that says the same as a line before, such as "no internet", is left out if it can be.
    """
    new = [line for line in lines if not any(line.repeats(other) for other in before)]
    kept = sorted(new or lines[:1], key=lambda line: -line.spread)[:most]
    return [line for line in lines if line in kept]


def _lines(
    values: Any, levels: tuple[Any, ...] | None, responsibilities: np.ndarray, label: str
) -> list[Line]:
    """One line of numbers, dates or two levels; one line for each of several levels."""
    from pandas.api.types import is_datetime64_any_dtype

    observed = values.notna().to_numpy()
    if levels is None and is_datetime64_any_dtype(values):
        days = (values - values.min()).dt.total_seconds().to_numpy() / 86_400.0
        return [_line(label, days, observed, responsibilities, _Dates(values.min(), days))]
    if levels is None:
        numbers = values.astype("float64").to_numpy()
        shares = set(np.unique(numbers[observed])) <= {0.0, 1.0}
        text = _percent if shares else _Numbers(numbers)
        return [_line(label, numbers, observed, responsibilities, text)]
    shown = levels if len(levels) > 2 else levels[-1:]
    return [
        _line(
            label if level is True else f"{label}: {level}",
            (values == level).fillna(False).to_numpy(dtype=float),
            observed,
            responsibilities,
            _percent,
        )
        for level in shown
    ]


def _line(
    label: str, numbers: np.ndarray, observed: np.ndarray, responsibilities: np.ndarray, text: Any
) -> Line:
    """Means of the observed cells, weighted by responsibilities; NaN where there are none."""
    x, weights = numbers[observed], responsibilities[observed]
    total = weights.sum(axis=0)
    means = np.divide(weights.T @ x, total, out=np.full_like(total, np.nan), where=total > 0.5)
    deviation = x.std()
    deviations = (means - x.mean()) / (deviation if deviation > 0.0 else 1.0)
    texts = ["–" if np.isnan(mean) else text(mean) for mean in (x.mean(), *means)]
    spread = float(np.nansum(total * np.square(deviations)) / total.sum())
    return Line(label, tuple(texts), deviations, spread)


def _percent(share: float) -> str:
    return f"{share:.0%}"


class _Numbers:
    """Numbers with as many decimals as their standard deviation needs."""

    def __init__(self, values: np.ndarray) -> None:
        deviation = max(float(np.nanstd(values)), 1e-3)
        self.decimals = int(np.clip(1 - np.floor(np.log10(deviation)), 0, 3))

    def __call__(self, value: float) -> str:
        return f"{value:,.{self.decimals}f}"


class _Dates:
    """Months, or days if all dates are within two months."""

    def __init__(self, first: Any, days: np.ndarray) -> None:
        self.first = first
        self.format = "%d %b" if np.nanmax(days) < 2.0 * MONTH else "%b %Y"

    def __call__(self, days: float) -> str:
        from pandas import Timedelta

        return str((self.first + Timedelta(days=days)).strftime(self.format))
