"""The simulation studies of the mini-batch EM paper: a template and a size for each."""

from __future__ import annotations

from typing import NamedTuple


class SimulationRow(NamedTuple):
    """Which mixture rows are drawn from, how many, and how often."""

    template: str
    n: int
    reps: int


TEMPLATES = ("elki", "exp", "flea", "iris", "poi", "wreath")
SIMULATIONS = {
    **{f"{template}1": SimulationRow(template, 10**6, 20) for template in TEMPLATES},
    **{f"{template}2": SimulationRow(template, 10**7, 3) for template in TEMPLATES},
}
