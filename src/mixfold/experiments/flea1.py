"""Three species of flea beetle, a Gaussian each; a million rows."""

from __future__ import annotations

from pathlib import Path

from mixfold.experiments._simulation import Simulation
from mixfold.experiments._templates import Template, species


class Flea1(Simulation):
    """Three species of flea beetle, a Gaussian each."""

    def template(self, data: Path | None) -> Template:
        return species("flea", data)
