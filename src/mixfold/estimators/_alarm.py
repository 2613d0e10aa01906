"""A row of a stream that raised an alarm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LARGE = 1e9  # numbers from which on no decimals are shown


@dataclass(frozen=True)
class Alarm:
    """A row whose score is above the threshold.

    Parameters
    ----------
    row : int
        The number of the row on the stream, counted from 0.
    score, threshold : float
        -log p(x) under the model before the row was learned, and the largest that raises no alarm.
    columns : dict
        How unusual the value of every column is, given the other columns, the largest first:
        -log p(x_j | others) less what it usually is, so about 0 for usual values, whatever their
        unit. Missing cells are left out. It is empty for families of which conditional
        distributions are not known.
    """

    row: int
    score: float
    threshold: float
    columns: dict[Any, float]

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {_shown(number)}" for name, number in self.columns.items())
        return f"row {self.row}: score {_shown(self.score)} > {_shown(self.threshold)} ({parts})"


def _shown(number: float) -> str:
    """A number with one decimal, or in the notation of powers of ten if it is very large."""
    return f"{number:.1f}" if abs(number) < LARGE else f"{number:.3e}"
