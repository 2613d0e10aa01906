"""Three well separated clusters in the plane; a million rows."""

from __future__ import annotations

from pathlib import Path

from mixfold.experiments._simulation import Simulation
from mixfold.experiments._templates import Template, elki


class Elki1(Simulation):
    """Three well separated clusters in the plane."""

    def template(self, data: Path | None) -> Template:
        return elki()
