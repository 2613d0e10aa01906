"""A mixture of three Poisson distributions; a million rows."""

from __future__ import annotations

from pathlib import Path

from mixfold.experiments._simulation import Simulation
from mixfold.experiments._templates import Template, poisson


class Poi1(Simulation):
    """A mixture of three Poisson distributions."""

    def template(self, data: Path | None) -> Template:
        return poisson()
