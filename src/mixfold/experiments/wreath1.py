"""Fourteen narrow Gaussians in a ring; a million rows."""

from __future__ import annotations

from pathlib import Path

from mixfold.experiments._simulation import Simulation
from mixfold.experiments._templates import Template, wreath


class Wreath1(Simulation):
    """Fourteen narrow Gaussians in a ring."""

    def template(self, data: Path | None) -> Template:
        return wreath(data)
