"""Alarms: rows that are less probable than almost all before them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """A cell of a row, and what it contributes to the log-density; None if that is not known."""

    column: str
    value: str
    contribution: float | None


@dataclass(frozen=True)
class Alarm:
    """A row below the threshold: its number from 1 on, and the cells that made it, worst first.

    `time` is in seconds since 1970.
    """

    row: int
    time: float
    log_density: float
    threshold: float
    cells: tuple[Cell, ...]
